/**
 * P11 for everything that a run leaves behind: wherever a credential stood in what was judged, measured or said by a child,
 * no file of the run folder has it, in none of the notations that a report writes text in.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { findSecrets } from "../src/contract/credentials.ts";
import type { RunDocument } from "../src/history/run-document.ts";
import { madeCurve } from "../src/report/made-curve.fixture.ts";
import { madeRun } from "../src/report/made-run.fixture.ts";
import { madeSeries } from "../src/report/made-series.fixture.ts";
import { writeReports } from "../src/run/run-reports.ts";
import { openJournal, type Undo } from "../src/supervision/journal.ts";
import { FORM_MIN_CHARS, Redactor } from "../src/supervision/redaction.ts";
import { openRunFolder, type RunFolder } from "../src/supervision/run-folder.ts";
import { law } from "./laws/law.ts";
import { chunksOf, credentialArb, cutsArb } from "./model/arbitraries.ts";

let path: string;
beforeAll(() => {
  path = mkdtempSync(join(tmpdir(), "floodgate-reports-"));
});
afterAll(() => rmSync(path, { recursive: true, force: true }));

/** What stands around a credential in a text that a server or a tool said. */
const aroundArb = fc.constantFrom(
  "",
  " ",
  "Bearer ",
  '{"key":"',
  "x-api-key: ",
  "<b>",
  "a|",
  "`",
  "'",
  "&",
  "\n",
  "é ",
);

/** Puts a text into the `at`-th of the document's own texts, names of outcomes included. */
const withText = (value: unknown, text: string, at: { left: number }, key = ""): unknown => {
  if (typeof value === "string") {
    at.left -= 1;
    // What must be one of a few words to be rendered at all stays as it is.
    const isWord = ["verdict", "code", "level", "schema", "started_at", "finished_at"].includes(key);
    return at.left === -1 && !isWord ? `${value} ${text}` : value;
  }
  if (Array.isArray(value)) return value.map((one) => withText(one, text, at, key));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const said = key === "by_outcome" && at.left-- === 0 ? `${name} ${text}` : name;
      return [said, withText(one, text, at, name)];
    }),
  );
};
const CURVE = madeCurve();
const TEXTS = JSON.stringify(madeRun()).split('"').length;

const filesOf = async (redactor: Redactor, document: RunDocument, text: string): Promise<[string, string][]> => {
  const folder: RunFolder = openRunFolder(path, redactor);
  await folder.writeJson("curve.json", { ...CURVE, kneeBy: text, stage: text });
  await writeReports(folder, document, madeSeries({ calls: 60, text, withFault: true }));
  const writer = folder.openLines("history.ndjson");
  await writer.write(JSON.stringify({ id: "1", error: text }));
  await writer.close();
  const journal = openJournal(join(path, "journal.ndjson"), redactor);
  const undo: Undo = {
    how: "command",
    fault: text,
    commands: [text],
    cwd: text,
    target: { base_url: text, name: text },
  };
  journal.undone(journal.about({ kind: "key", name: text, undo, detail: text }));
  journal.close();
  const files = readdirSync(path).map((name): [string, string] => [name, readFileSync(join(path, name), "utf8")]);
  for (const grows of ["history.ndjson", "journal.ndjson"]) rmSync(join(path, grows));
  return files;
};

/** The part of a secret that a mask must not show. */
const hiddenOf = (secret: string): string => {
  const prefix = /^(?:svc_(?:pk|sk|sess)_(?:[a-z]+_)?(?:eyJ)?|eyJ)/.exec(secret)?.[0] ?? "";
  return secret.slice(prefix.length, -4);
};

law(
  "P11 no credential stands in any file of a run, wherever it stood in what the run found",
  () =>
    fc.asyncProperty(
      credentialArb,
      aroundArb,
      aroundArb,
      fc.nat({ max: TEXTS }),
      async (secret, before, after, left) => {
        const text = before + secret + after;
        const document = withText(madeRun(), text, { left }) as RunDocument;
        const files = await filesOf(new Redactor(), document, text);
        expect(files.map(([name]) => name).sort()).toEqual(
          [
            "ctrf.json",
            "curve.json",
            "history.ndjson",
            "journal.ndjson",
            "junit.xml",
            "metrics.prom",
            "night.json",
            "report.html",
            "run.json",
            "series.json",
            "summary.md",
          ].sort(),
        );
        for (const [name, written] of files) {
          expect(written.includes(secret), `the credential in ${name}`).toBe(false);
          expect(written.includes(hiddenOf(secret)), `what its mask hides in ${name}`).toBe(false);
          expect(findSecrets(written).length, `credentials in ${name}`).toBe(0);
        }
      },
    ),
  { quick: 30, nightly: 1_500 },
);

/** A password or a signing secret: no shape, any signs, long enough to be told from ordinary text. */
const shapelessArb = fc
  .string({ unit: fc.constantFrom(..."abcXYZ0189+/=&<>\"'`|*_\\$%# "), minLength: 12, maxLength: 40 })
  .map((text) => `q7${text.trim()}w3`)
  .filter((text) => text.length >= FORM_MIN_CHARS && findSecrets(text).length === 0);

law(
  "P11 a secret without a shape that was read from the target file stands in no file of a run",
  () =>
    fc.asyncProperty(shapelessArb, fc.nat({ max: TEXTS }), async (secret, left) => {
      const redactor = new Redactor();
      // Whether each part of it can be masked by itself (`a=b` has parts) does not matter here: the whole can.
      redactor.register(secret);
      const document = withText(madeRun(), secret, { left }) as RunDocument;
      const files = await filesOf(redactor, document, secret);
      // A report writes signs in its own way; letters and digits stay, so what is left of the secret shows as these.
      const bare = (text: string): string =>
        text.replaceAll(/&(?:#\d+|#x[0-9a-f]+|[a-z]+);|\\u[0-9a-f]{4}|[^a-zA-Z0-9]/gi, "");
      const lettersOnly = bare(secret);
      for (const [name, written] of files) {
        expect(written.includes(secret), `the secret in ${name}`).toBe(false);
        if (lettersOnly.length >= 12) expect(bare(written).includes(lettersOnly), `its letters in ${name}`).toBe(false);
      }
    }),
  { quick: 30, nightly: 1_500 },
);

law(
  "P11 a line that a child says is masked wherever its chunks are cut",
  () =>
    fc.property(
      fc.array(fc.tuple(aroundArb, credentialArb, aroundArb), { minLength: 1, maxLength: 4 }),
      fc.constantFrom("\n", "\r\n"),
      cutsArb,
      (parts, lineEnd, cuts) => {
        const text = parts.map(([before, secret, after]) => before + secret + after).join(lineEnd);
        const said: string[] = [];
        const lines = new Redactor().lines((line) => said.push(line));
        for (const chunk of chunksOf(new TextEncoder().encode(text), cuts)) lines.push(Buffer.from(chunk));
        lines.end();
        for (const [, secret] of parts) expect(said.join("\n").includes(secret), "a credential").toBe(false);
        expect(findSecrets(said.join("\n")).length, "credentials").toBe(0);
      },
    ),
  { quick: 500, nightly: 50_000 },
);
