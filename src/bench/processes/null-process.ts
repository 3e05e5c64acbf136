/** The server at the other end of the generators: it answers at once, so that they are what is measured. */
import { startNullServer } from "../../drivers/open-loop/bare-server.ts";
import { serveParent } from "./child-side.ts";

serveParent<null>(async () => {
  const server = await startNullServer(() => 0);
  return { made: { url: `http://127.0.0.1:${server.port}/v1` }, close: async () => server.close() };
});
