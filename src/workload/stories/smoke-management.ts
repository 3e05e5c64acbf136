/**
 * Refusals of key management (section 7.3; items 124-135). A conforming target creates nothing for any of them; a broken
 * one might, so they need the owner's permit to write.
 */
import { role, type SmokeCase } from "./smoke-case.ts";

const create = (admin: string, key: Record<string, unknown>, is: "ok" | "malformed" = "ok"): SmokeCase => ({
  needs: "writes",
  wish: {
    route: "keys.create",
    credential: { as: "admin", of: role(admin) },
    via: "authorization",
    body: { is, text: JSON.stringify(key) },
  },
});

const ORIGINS = ["https://smoke.example"];
const publishableKey = { kind: "publishable", env: "live", name: "smoke", scopes: ["maps"], allowed_origins: ORIGINS };

export const managementCases: readonly SmokeCase[] = [
  {
    needs: "writes",
    wish: {
      route: "keys.create",
      credential: { as: "none" },
      via: "authorization",
      body: { is: "ok", text: JSON.stringify(publishableKey) },
    },
  },
  create("admin_no_plan", publishableKey),
  create("admin_free", { ...publishableKey, kind: "server", allowed_origins: [] }),
  create("admin_key_limit", publishableKey),
  create("admin_pro", { ...publishableKey, scopes: ["maps", "teleport"] }, "malformed"),
  create("admin_pro", { ...publishableKey, products: ["teapot"] }, "malformed"),
  create("admin_pro", { ...publishableKey, allowed_origins: [] }, "malformed"),
  create("admin_pro", { ...publishableKey, scopes: ["maps", "vendor"] }),
];
