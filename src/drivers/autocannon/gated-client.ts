/**
 * A client of autocannon behind a gate. autocannon sends a client's next request when the last one is answered, and asks
 * nobody; its options bound only sums and whole seconds. So the method by which a client begins its next request is
 * replaced: each call is planned, asks the budget and waits for its turn before autocannon's own method writes it.
 */
import type { Socket } from "node:net";
import type autocannon from "autocannon";
import type { Became, BudgetGuard, Taken } from "../../workload/budget.ts";

/** What a client does next. */
export type NextCall = {
  request: Pick<autocannon.Request, "method" | "path" | "headers" | "body">;
  charging: NonNullable<Parameters<BudgetGuard["take"]>[1]>;
  outcomeOf(status: number, body: string, contentEncoding: string | undefined): string;
};

type Gate = {
  budget: BudgetGuard;
  nowUs(): number;
  isOver(): boolean;
  /** The next call of the story; `null` where none can be made. */
  next(): Promise<NextCall | null>;
  /** What became of a call that left. */
  ended(became: Became): void;
};

/** What autocannon 9.0.0 has and its typings leave out (lib/httpClient.js). */
type Client = autocannon.Client & { conn: Socket; destroyed: boolean; _doRequest(): void; destroy(): void };

type InFlight = { taken: Taken; sentUs: number; conn: Socket; isConnected: boolean };

export type GatedClient = {
  /** Ends it where no call of it is under way. */
  endIfIdle(): void;
  /** Notes what is under way as without an answer. */
  giveUp(): void;
};

export const gateClient = (plain: autocannon.Client, gate: Gate): GatedClient => {
  const client = plain as Client;
  const send = client._doRequest;
  if (typeof send !== "function") throw new Error("this autocannon has no _doRequest; expected 9.0.0");
  let call: InFlight | null = null;
  let isPreparing = false;
  /** The target has said that it closes the connection: autocannon begins the next call when it has made a new one. */
  let isClosing = false;

  const end = (outcome: string): void => {
    if (call === null) return;
    const { taken, sentUs, isConnected } = call;
    call = null;
    const doneUs = gate.nowUs();
    const became = { outcome, sent: isConnected || outcome !== "indeterminate", sentUs, doneUs };
    taken.settle(doneUs, became);
    gate.ended(became);
  };

  const giveBack = (taken: Taken): void => {
    const nowUs = gate.nowUs();
    taken.settle(nowUs, { outcome: "indeterminate", sent: false, sentUs: nowUs, doneUs: nowUs });
  };

  /** Waits until the call may leave; `null` where it may not. */
  const leave = async ({ charging }: NextCall): Promise<Taken | null> => {
    let taken = gate.budget.take(gate.nowUs(), charging);
    while (taken === null && gate.budget.stopped === null && !gate.isOver()) {
      await gate.budget.settled();
      taken = gate.budget.take(gate.nowUs(), charging);
    }
    if (taken === null) return null;
    const { waitUs } = taken;
    if (waitUs > 0) await new Promise((resolve) => setTimeout(resolve, waitUs / 1000));
    if (taken.mayLeave() && !gate.isOver() && !client.destroyed) return taken;
    giveBack(taken);
    return null;
  };

  const begin = async (): Promise<void> => {
    // The first time, autocannon has not put its own listeners on the client yet.
    await new Promise((resolve) => setImmediate(resolve));
    const next = gate.isOver() ? null : await gate.next();
    const taken = next === null ? null : await leave(next);
    if (next === null || taken === null) {
      client.destroy();
      return;
    }
    const { conn } = client;
    const mine: InFlight = { taken, sentUs: gate.nowUs(), conn, isConnected: !conn.connecting };
    if (conn.connecting) {
      conn.once("connect", () => {
        mine.isConnected = true;
      });
    }
    call = mine;
    const onResponse = (status: number, body: string, _context: object, headers: object = {}): void => {
      const headerOf = (name: string): unknown =>
        Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
      const coding = headerOf("content-encoding");
      end(next.outcomeOf(status, body, coding === undefined ? undefined : String(coding)));
      // A request written to a connection that is closing would be lost.
      const closes = headerOf("connection") === "close";
      if (!closes) return;
      isClosing = true;
      conn.end();
    };
    client.setRequests([{ ...next.request, onResponse }]);
    send.call(client);
  };

  client._doRequest = () => {
    // Asked again while a call is under way: its connection broke.
    end("indeterminate");
    const isToCome = isClosing;
    isClosing = false;
    if (isPreparing || isToCome || client.destroyed) return;
    isPreparing = true;
    void begin().finally(() => {
      isPreparing = false;
    });
  };
  return {
    endIfIdle: () => {
      if (call === null && !isPreparing && !client.destroyed) client.destroy();
    },
    giveUp: () => end("indeterminate"),
  };
};
