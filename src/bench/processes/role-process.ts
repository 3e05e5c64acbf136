/** One role of the reference platform as a process of its own. */
import { type Role, type RoleOptions, startRole } from "../../platform/start-role.ts";
import { serveParent } from "./child.ts";

serveParent<{ role: Role; options: RoleOptions }>(async ({ role, options }) => {
  const running = await startRole(role, { logLevel: "error", stopDeadlineMs: 500, ...options });
  return {
    made: running.urls,
    // Garbage is collected first, so that it is not counted as the memory of a stream.
    answer: () => (globalThis as { gc?: () => void }).gc?.(),
    close: running.close,
  };
});
