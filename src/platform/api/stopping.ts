/** The end of a replica: no new connection, running calls finish until the deadline, refunds are confirmed. */
import type { Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import type { ApiContext } from "./context.ts";

/** How often a stopping service looks whether it is done. */
const STOP_LOOK_MS = 20;
const LAST_BYTES_MS = 200;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const stopApi = async (
  context: ApiContext,
  server: FastifyInstance,
  sockets: Set<Socket>,
  deadlineMs: number,
): Promise<void> => {
  const untilMs = performance.now() + deadlineMs;
  context.stopping = true;
  context.log.info({ inFlight: context.shedder.inFlight() }, "the API stops");
  const listener = server.server;
  const destroyAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const closed = server.close();
  if (!context.parts.streamsFinishOnStop) destroyAll();
  const isBusy = (): boolean => context.shedder.inFlight() > 0 || context.managing > 0;
  while (isBusy() && performance.now() < untilMs) {
    listener.closeIdleConnections?.();
    await pause(STOP_LOOK_MS);
  }
  for (const stream of [...context.openStreams]) stream.interrupt();
  // What was just written still has to leave.
  listener.closeIdleConnections?.();
  await Promise.race([closed, pause(LAST_BYTES_MS)]);
  destroyAll();
  await closed;
  const drainMs = context.parts.refundsSettleOnStop ? Math.max(1_000, untilMs - performance.now()) : 0;
  const left = await context.settlement.drain(drainMs);
  if (left > 0) context.log.warn({ unsettled: left }, "refunds are left unconfirmed");
  context.settlement.close();
  context.inference.close();
  context.log.info("the API has stopped");
};
