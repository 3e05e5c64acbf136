/** What a rule works with: roles, one way to send, sessions, permits, budget. */
import { readCredential } from "../client/credential-book.ts";
import { credentialKind } from "../contract/credentials.ts";
import type { Product, RouteName } from "../contract/routes.ts";
import type { Secrets } from "../target/secrets.ts";
import { ADMIN_ROLES, type KeyCredential, type KeyRole, type Target } from "../target/target.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { nobodysCredential } from "../workload/request.ts";
import type { CredentialRef } from "../workload/step.ts";
import type { Effects } from "./effects.ts";
import { type Budget, type Permission, type Role, type Spending, shortageOf } from "./planning/needs.ts";
import type { Answer } from "./sending/answer.ts";
import type { Sender, SenderParts } from "./sending/sender.ts";
import { asServer, FORMS, type Form, inSession, mint, stepOfTestCall, type TestCall } from "./sending/test-call.ts";
import { createSessions } from "./sessions.ts";
import type { Open } from "./verdict.ts";

/** Concurrent calls outside of bursts: too few to be load. */
export const AT_A_TIME = 4;

export type Context = {
  readonly target: Target;
  readonly budget: Budget;
  readonly effects: Effects;
  readonly signal: AbortSignal | undefined;
  /** Wall time, ms since 1970, for the month of an allowance. */
  wallMs(): number;
  readonly seed: number;
  /** How long past its end a session may still be admitted, because clocks differ (item 29). */
  readonly leewayMs: number;
  /** Total time spent waiting for overload to end. */
  readonly patienceMs: number;
  /** Every answer of the run so far. */
  readonly answers: readonly Answer[];
  has(name: Role): boolean;
  keyRole(name: KeyRole): KeyCredential | undefined;
  /** The key itself, for rules that change a character in it. */
  secretOf(name: Role): Promise<string>;
  kindOf(name: KeyRole): Promise<"publishable" | "server">;
  permits(what: Permission): boolean;
  /** Returns why a budget cannot cover the amount; `null` if it can. */
  short(what: keyof Spending, amount: number): Open | null;
  send(testCall: TestCall): Promise<Answer>;
  /** Headers in which the exchange takes a publishable key: they are not specified (item 143), so they are tried once. */
  exchangeForms(): Promise<readonly Form[]>;
  /** Runs `work` for each item, `AT_A_TIME` at once, started in order. */
  each<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void>;
  /** The exchange's answer for a role and product, cached for the session's life. */
  mint(of: KeyRole, product: Product): Promise<Answer>;
  /** Memoizes `work` by name, for answers that several rules judge. */
  once<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Drops all memoized results and sessions. */
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

  const secretOf: Context["secretOf"] = (name) => {
    const as = (ADMIN_ROLES as readonly string[]).includes(name) ? "admin" : "publishable";
    return readCredential(target, secrets, `role:${name}`, as);
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
      if (credential.as !== "session") return readCredential(target, secrets, credential.of, credential.as);
      return sessions.tokenOf(nameOf(credential) as KeyRole, credential.product);
    },
    originOf: ({ originValue, origin, credential }) => {
      if (originValue !== undefined) return originValue;
      if (origin !== "listed" || !("of" in credential)) return undefined;
      // A server key has no origin allowlist. Any real origin will do, so one that the deployment knows is preferred.
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

/** Credentials that may call the runtime routes: a session of the publishable key, and the server key. */
export const callersOf = (context: Context, scope: "ai" | "design"): Caller[] => [
  ...(context.has("publishable") ? [callerIn(inSession(scope === "ai" ? "chat" : "editor", "-"))] : []),
  ...(context.has("server") ? [callerIn(asServer("-"))] : []),
];

const callerIn = ({ credential, origin }: TestCall): Caller => ({ credential, origin });

/** Routes of every deployment: without the reference's extensions. */
export const RUNTIME_ROUTES: readonly RouteName[] = [
  ...(["chat.control", "chat.summary", "chat.button", "chat.route", "poi.enrich"] as const),
  ...(["design.analyze", "design.apply", "design.styles", "design.samples", "design.themes"] as const),
];

export const scopeOf = (route: RouteName): "ai" | "design" => (route.startsWith("design.") ? "design" : "ai");
