import { expect, test } from "vitest";
import type { CallLine } from "../../history/line.ts";
import type { Context } from "../context.ts";
import type { Answer } from "../sending/answer.ts";
import { asServer, inSession, type TestCall } from "../sending/test-call.ts";
import { sideBySide, wave } from "./load-burst.ts";

test("the capacity is what was served at once: of a wave that came late, the last took the slots of the first", () => {
  const answer = (outcome: string, fromMs: number | null, toMs: number) => ({
    outcome,
    line: { first_us: fromMs === null ? null : fromMs * 1000, done_us: toMs * 1000 } as CallLine,
  });
  const first = Array.from({ length: 40 }, (_, i) => answer("200", i, 300 + i));
  const refused = Array.from({ length: 3 }, () => answer("429 b2b_overloaded", 50, 51));
  const last = Array.from({ length: 21 }, (_, i) => answer("200", 345 + i, 650 + i));
  expect(sideBySide([...first, ...refused, ...last, answer("indeterminate", null, 700)])).toBe(40);
});

test("an edge that passes the end of a stream on late does not make two that follow each other stand side by side", () => {
  const answer = (fromMs: number, contentMs: number, endMs: number) => ({
    outcome: "200",
    line: {
      first_us: fromMs * 1000,
      done_us: (fromMs + contentMs + endMs) * 1000,
      gaps_us: [(contentMs * 1000) / 2, (contentMs * 1000) / 2, endMs * 1000],
    } as CallLine,
  });
  const first = Array.from({ length: 16 }, (_, i) => answer(i, 200, 300));
  const next = Array.from({ length: 16 }, (_, i) => answer(250 + i, 200, 300));
  expect(sideBySide([...first, ...next])).toBe(16);
  expect(sideBySide([...first, ...next.map(({ line }) => answer((line.first_us ?? 0) / 1000 - 150, 200, 300))])).toBe(
    32,
  );
});

test("the callers of a wave take turns, however long the credential of each takes to read", async () => {
  const left: string[] = [];
  const send = async ({ credential, beforeSent }: TestCall): Promise<Answer> => {
    const as = "as" in credential ? credential.as : "-";
    for (let i = 0; i < (as === "server" ? 9 : 1); i++) await null;
    beforeSent?.();
    left.push(as);
    return {} as Answer;
  };
  await wave({ send } as Context, 6, [asServer("-"), inSession("chat", "-")]);
  expect(left).toEqual(["server", "session", "server", "session", "server", "session"]);
});

test("a call of a wave that may not be sent does not hold up the others", async () => {
  let sent = 0;
  const send = async ({ beforeSent }: TestCall): Promise<Answer> => {
    if (sent++ === 1) throw new Error("nothing more may be sent");
    beforeSent?.();
    return {} as Answer;
  };
  await expect(wave({ send } as Context, 4, [asServer("-")])).rejects.toThrow("nothing more may be sent");
  expect(sent).toBe(4);
});
