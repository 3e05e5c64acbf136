/** What a rule works with: roles, one way to send, sessions, permits, budget. It does not know whose deployment it is. */
import { credentialKind } from "../contract/credentials.ts";
import type { Product, RouteName } from "../contract/routes.ts";
import type { Budget, Spending } from "../target/budget.ts";
import { inItsPlace, type KeyWanted, wantedUnder } from "../target/key-roles.ts";
import type { Secrets } from "../target/secrets.ts";
import { ADMIN_ROLES, type AdminRole, type KeyCredential, type KeyRole, type Target } from "../target/target.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { nobodysCredential } from "../workload/request.ts";
import type { CredentialRef } from "../workload/step.ts";
import type { Effects } from "./effects.ts";
import { type Permission, type Role, shortageOf } from "./planning/needs.ts";
import type { Answer } from "./sending/answer.ts";
import type { Sender, SenderParts } from "./sending/sender.ts";
import { asServer, FORMS, type Form, inSession, mint, stepOfTestCall, type TestCall } from "./sending/test-call.ts";
import { createSessions } from "./sessions.ts";
import type { Open } from "./verdict.ts";

/** Few enough that no deployment calls it load. */
export const AT_A_TIME = 4;

export type Context = {
  readonly target: Target;
  readonly budget: Budget;
  readonly effects: Effects;
  readonly signal: AbortSignal | undefined;
  /** Wall time, ms since 1970: months are taken from it. */
  wallMs(): number;
  readonly seed: number;
  /** How long past its end a session may be admitted, for clocks that differ (item 29). */
  readonly leewayMs: number;
  /** How long overload may last before it is taken for lasting. */
  readonly patienceMs: number;
  /** Everything that came so far. */
  readonly answers: readonly Answer[];
  has(name: Role): boolean;
  keyRole(name: KeyRole): KeyCredential | undefined;
  /** The key's own text: only for what a rule has to change in it. */
  secretOf(name: Role): Promise<string>;
  kindOf(name: KeyRole): Promise<"publishable" | "server">;
  permits(what: Permission): boolean;
  /** Why so much of a budget cannot be spent any more; `null` where it can. */
  short(what: keyof Spending, amount: number): Open | null;
  send(testCall: TestCall): Promise<Answer>;
  /** Headers in which the exchange takes a publishable key; which ones is not stated for it (item 143). */
  exchangeForms(): Promise<readonly Form[]>;
  /** A few at a time, in order of the list. */
  each<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void>;
  /** The answer of the exchange, kept: each product is minted once for each role. */
  mint(of: KeyRole, product: Product): Promise<Answer>;
  /** Something that several rules look at, done by the first that asks. */
  once<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Drops what `once` keeps and the sessions: whoever asks next finds out anew. */
  forget(): void;
};

type ContextParts = Pick<
  Context,
  "target" | "budget" | "effects" | "signal" | "seed" | "leewayMs" | "patienceMs" | "wallMs"
> & {
  view: TargetView;
  secrets: Secrets;
  allowed: ReadonlySet<Permission>;
  makeSender(parts: Pick<SenderParts, "secretOf" | "originOf" | "neighbourOf">): Sender;
};

const nameOf = (ref: CredentialRef): string => ("of" in ref ? ref.of.replace(/^role:/, "") : "");

export const createContext = ({ view, secrets, allowed, makeSender, ...given }: ContextParts): Context => {
  const { target, budget } = given;
  const credentials = target.credentials ?? {};
  const kept = new Map<string, Promise<unknown>>();

  const has: Context["has"] = (name) => credentials[name] !== undefined;
  const keyRole: Context["keyRole"] = (name) => credentials[name];

  const read = async (ref: string | undefined, wanted: KeyWanted, what: string): Promise<string> =>
    inItsPlace(await secrets.read(ref ?? "", what), wanted, what);

  const secretOf: Context["secretOf"] = (name) => {
    const isAdmin = (ADMIN_ROLES as readonly string[]).includes(name);
    const ref = isAdmin ? credentials[name as AdminRole]?.token : credentials[name as KeyRole]?.key;
    return read(ref, wantedUnder(name), `credentials.${name}`);
  };

  const tenantKey = (org: string): Promise<string> => {
    const found = target.tenants?.find((tenant) => tenant.org === org);
    return read(found?.server?.key, "server", `tenants (${org}).server.key`);
  };

  const short: Context["short"] = (what, amount) => shortageOf(target, budget.left, what, amount);
  const sessions = createSessions(
    () => short("map_loads", 1),
    (call) => send(call),
  );

  const sender = makeSender({
    secretOf: async (call) => {
      if (call.secret !== undefined) return call.secret.value;
      const { credential } = call;
      if (!("of" in credential)) return nobodysCredential(stepOfTestCall(view, 0, call)) ?? null;
      if (credential.of.startsWith("tenant:")) return tenantKey(credential.of.slice("tenant:".length));
      const name = nameOf(credential) as Role;
      return credential.as === "session" ? sessions.tokenOf(name as KeyRole, credential.product) : secretOf(name);
    },
    originOf: ({ originValue, origin, credential }) => {
      if (originValue !== undefined) return originValue;
      if (origin !== "listed" || !("of" in credential)) return undefined;
      // A server key has no allowlist of origins: any real one will do, best one that the deployment knows.
      return keyRole(nameOf(credential) as KeyRole)?.origin ?? keyRole("publishable")?.origin;
    },
    neighbourOf: ({ route, credential }) => {
      const calls = [mint("publishable", "chat"), asServer("design.styles")];
      const same = (next: TestCall): boolean =>
        next.route === route && JSON.stringify(next.credential) === JSON.stringify(credential);
      const wanted = nameOf(credential) === "server" ? calls.reverse() : calls;
      return wanted.find((next) => has(nameOf(next.credential) as Role) && !same(next)) ?? null;
    },
  });

  const once: Context["once"] = <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const found = (kept.get(name) as Promise<T> | undefined) ?? work();
    kept.set(name, found);
    return found;
  };

  const exchangeForms: Context["exchangeForms"] = () =>
    once("exchange forms", async () => {
      if (!has("publishable")) return FORMS;
      const taken: Form[] = [];
      for (const form of FORMS)
        if ((await sender.send(mint("publishable", "editor", { form }))).status !== 401) taken.push(form);
      return taken.length === 0 ? FORMS : taken;
    });

  const send: Context["send"] = async (call) => {
    if (call.route !== "sdk.sessions" || call.form !== undefined) return sender.send(call);
    const [form = "bearer"] = await exchangeForms();
    return sender.send({ ...call, form });
  };

  return {
    ...given,
    answers: sender.answers,
    ...{ has, keyRole, secretOf, short, send, exchangeForms, once, mint: sessions.mint },
    kindOf: async (name) => (credentialKind(await secretOf(name)) === "server" ? "server" : "publishable"),
    permits: (what) => allowed.has(what),
    each: async (items, work) => {
      const queue = [...items].reverse();
      const workers = Array.from({ length: Math.min(AT_A_TIME, items.length) }, async () => {
        for (let item = queue.pop(); item !== undefined; item = queue.pop()) await work(item);
      });
      await Promise.all(workers);
    },
    forget: () => {
      kept.clear();
      sessions.forget();
    },
  };
};

export type Caller = Pick<TestCall, "credential" | "origin">;

/** Who may call the runtime routes: a session of the full-scope key from its origin, and the server key. */
export const callersOf = (context: Context, scope: "ai" | "design"): Caller[] => [
  ...(context.has("publishable") ? [callerIn(inSession(scope === "ai" ? "chat" : "editor", "-"))] : []),
  ...(context.has("server") ? [callerIn(asServer("-"))] : []),
];

const callerIn = ({ credential, origin }: TestCall): Caller => ({ credential, origin });

export const scopeOf = (route: RouteName): "ai" | "design" => (route.startsWith("design.") ? "design" : "ai");
