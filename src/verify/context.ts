/** What a rule works with: roles, one way to send, sessions, permits, budget. */
import type { Product, RouteName } from "../contract/routes.ts";
import { known } from "../history/statistics/statistics.ts";
import type { SideEffects } from "../supervision/journal.ts";
import { eachAtOnce } from "../supervision/waiting.ts";
import { ADMIN_ROLES, type KeyRole } from "../target/roles.ts";
import type { Secrets } from "../target/secrets.ts";
import { credentialFinder, readStated } from "../target/stated-credentials.ts";
import { type CredentialRef, nobodysCredential } from "../workload/step.ts";
import { renewAtMs } from "../workload/timeouts.ts";
import { callInWords, codeOf, inconclusive, isSessionsOff, skipped } from "./checks.ts";
import type { Budget, Denied, Permission, Role } from "./planning/needs.ts";
import { type Answer, isAdmitted, lookOf } from "./sending/answer.ts";
import { createSender, type SenderParts } from "./sending/sender.ts";
import { asServer, FORMS, type Form, inSession, mint, stepOfTestCall, type TestCall } from "./sending/test-call.ts";

const LIFE_UNSTATED_MS = 900_000;

/** Sessions by role and product, each minted when it is first needed and again when it is due for renewal. */
const createSessions = (budget: Budget, send: (call: TestCall) => Promise<Answer>) => {
  const sessions = new Map<string, { answer: Promise<Answer>; renewAtMs: number }>();

  /** When each token ends by the clock of this machine, at the earliest. */
  const endsAtMs = new Map<unknown, number>();

  const minted = async (of: KeyRole, product: Product): Promise<Answer> => {
    const name = `${of} ${product}`;
    const found = sessions.get(name);
    if (found !== undefined) return found.answer;
    if (product === "tile") budget.require("map_loads", 1);
    const sentMs = Date.now();
    const entry = { answer: send(mint(of, product)), renewAtMs: Number.POSITIVE_INFINITY };
    sessions.set(name, entry);
    const answer = await entry.answer.catch(() => null);
    const lifeS = answer?.fields.expires_in;
    const lifeMs = typeof lifeS === "number" && lifeS > 0 ? lifeS * 1000 : LIFE_UNSTATED_MS;
    entry.renewAtMs = renewAtMs(Date.now(), lifeMs);
    endsAtMs.set(answer?.fields.session_token, sentMs + lifeMs);
    if (answer === null || answer.transient) sessions.delete(name);
    return entry.answer;
  };

  const tokenOf = async (of: KeyRole, product: Product): Promise<string> => {
    const name = `${of} ${product}`;
    if (Date.now() > (sessions.get(name)?.renewAtMs ?? 0)) sessions.delete(name);
    const answer = await minted(of, product);
    const { session_token: token } = answer.fields;
    if (isAdmitted(answer) && typeof token === "string") return token;
    const why = `no session could be minted: ${callInWords(answer)}`;
    throw isSessionsOff(answer) ? skipped("not-provided", why) : inconclusive(codeOf(answer), why, [answer]);
  };

  const hasEnded = (token: string | null): boolean => Date.now() >= (endsAtMs.get(token) ?? Number.POSITIVE_INFINITY);

  return { minted, tokenOf, hasEnded, forget: () => sessions.clear() };
};

export type Effects = ReturnType<typeof createEffects>;
export type Effect = ReturnType<Effects["about"]>;

/** Keys that this run creates: journalled before each is made, then deleted, or left open in the journal. */
export const createEffects = (journal?: SideEffects) => {
  const open = new Map<string, { name: string; undo(): Promise<boolean> }>();
  const staying: string[] = [];
  let made = 0;
  /** How many effects in a row have had no clear answer to their creation so far. */
  let unclear = 0;
  const over = (id: string, detail: string): void => {
    open.delete(id);
    unclear = 0;
    journal?.undone(id, detail);
  };
  return {
    about: (name: string) => {
      const id = journal?.about({ kind: "key", name }) ?? `effect-${made++}`;
      open.set(id, { name, undo: async () => false });
      unclear += 1;
      return {
        /** Records that the effect was made; `undo` resolves to whether it was removed. */
        happened: (detail: string, undo: () => Promise<boolean>): void => {
          open.set(id, { name, undo });
          unclear = 0;
          journal?.done(id, { detail });
        },
        /** Records that the effect was not made, or is gone. */
        over: (detail: string): void => over(id, detail),
        /** Records that the effect was made and cannot be removed by the run. */
        stays: (what: string, detail: string): void => {
          open.delete(id);
          unclear = 0;
          staying.push(what);
          journal?.done(id, { detail });
        },
      };
    },
    unclear: (): number => unclear,
    /** Effects that only an operator can remove, in words. */
    staying: staying as readonly string[],
    /** Undoes every open effect, newest first. Returns the names of those that could not be removed. */
    takeBackAll: async (): Promise<string[]> => {
      const left: string[] = [];
      for (const [id, { name, undo }] of [...open].reverse()) {
        if (await undo().catch(() => false)) over(id, "taken back");
        else left.push(name);
      }
      return left;
    },
  };
};

/** The most concurrent calls outside of bursts; so few are no load. */
export const AT_A_TIME = 4;

export type ContextParts = Omit<SenderParts, "secretOf" | "hasEnded" | "originOf" | "neighbourOf" | "isStrange"> & {
  secrets: Secrets;
  effects: Effects;
  denied: Denied;
  seed: number;
  /** How long past its end a session may still be admitted, because clocks differ (item 29). */
  leewayMs: number;
  /** How long a count of map loads may lag behind them, because how exact it is at once is not specified (item 234). */
  settleMs: number;
  /** Wall time, ms since 1970. */
  wallMs(): number;
};

const nameOf = (ref: CredentialRef): KeyRole => ("of" in ref ? ref.of.replace(/^role:/, "") : "") as KeyRole;

export type Context = ReturnType<typeof createContext>;

export const createContext = (parts: ContextParts) => {
  const { target, secrets, budget, denied, effects, signal, seed, leewayMs, patienceMs, settleMs, wallMs } = parts;
  const credentials = target.credentials ?? {};
  const kept = new Map<string, Promise<unknown>>();
  /** Looks of answers that other servers gave in the API's place. */
  const strangers = new Set<string>();
  const isStrange = (answer: Answer): boolean => strangers.has(lookOf(answer));

  const has = (name: Role): boolean => credentials[name] !== undefined;
  const keyRole = (name: KeyRole) => credentials[name];

  const { find } = credentialFinder(target);
  const secretOf = async (name: Role): Promise<string> => {
    const as = ADMIN_ROLES.some((admin) => admin === name) ? "admin" : "publishable";
    return readStated(find(`role:${name}`, as), secrets);
  };

  const sessions = createSessions(budget, (call) => send(call));

  const sender = createSender({
    ...parts,
    secretOf: async (call) => {
      if (call.secret !== undefined) return call.secret.value;
      const { credential } = call;
      if (!("of" in credential)) return nobodysCredential(stepOfTestCall(parts.view, 0, call)) ?? null;
      if (credential.as !== "session") return readStated(find(credential.of, credential.as), secrets);
      return sessions.tokenOf(nameOf(credential), credential.product);
    },
    hasEnded: sessions.hasEnded,
    isStrange,
    originOf: ({ originValue, origin, credential }) => {
      if (originValue !== undefined) return originValue;
      if (origin !== "listed" || !("of" in credential)) return undefined;
      // A server key has no origin allowlist. Any real origin will do, so one that the deployment knows is preferred.
      return keyRole(nameOf(credential))?.origin ?? keyRole("publishable")?.origin;
    },
    neighbourOf: ({ route, credential }) => {
      const calls = [mint("publishable", "chat"), asServer("design.styles")];
      const same = (next: TestCall): boolean =>
        next.route === route && JSON.stringify(next.credential) === JSON.stringify(credential);
      const wanted = nameOf(credential) === "server" ? calls.reverse() : calls;
      return wanted.find((next) => has(nameOf(next.credential)) && !same(next)) ?? null;
    },
  });

  /** Memoizes `work` by name, for answers that several rules judge. */
  const once = <T>(name: string, work: () => Promise<T>) => known(kept, name, work) as Promise<T>;

  /** Headers in which the exchange takes a publishable key. Item 143 leaves them open, so each is tried once. */
  const exchangeForms = (): Promise<readonly Form[]> =>
    once("exchange forms", async () => {
      if (!has("publishable")) return FORMS;
      const minted = await Array.fromAsync(FORMS, (form) => sender.send(mint("publishable", "editor", { form })));
      const taken = FORMS.filter((_, i) => minted[i]?.status !== 401);
      return taken.length === 0 ? FORMS : taken;
    });

  const send = async (call: TestCall): Promise<Answer> => {
    if (call.route !== "sdk.sessions" || call.form !== undefined) return sender.send(call);
    const [form = "bearer"] = await exchangeForms();
    return sender.send({ ...call, form });
  };

  return {
    ...{ target, budget, denied, effects, signal, seed, leewayMs, patienceMs, settleMs, wallMs },
    ...{ has, keyRole, secretOf, send, exchangeForms, once },
    answers: sender.answers,
    ...{ strangers, isStrange },
    /** Roles whose credentials the deployment takes nowhere, or not for all that they are meant for. */
    refused: new Set<Role>(),
    /** The exchange's answer for a role and product, cached for the session's life. */
    mint: sessions.minted,
    permits: (what: Permission): boolean => !denied.has(what),
    /** Runs `work` for each item, `AT_A_TIME` at once, started in order. */
    each: <T, R>(items: readonly T[], work: (item: T) => Promise<R>) => eachAtOnce(AT_A_TIME, items, work),
    forget: (): void => {
      kept.clear();
      sessions.forget();
    },
  };
};

export type Caller = Pick<TestCall, "credential" | "origin">;

/** Credentials that may call the runtime routes: a session of the publishable key, and the server key. */
export const callersOf = ({ has }: Context, scope: "ai" | "design"): Caller[] => {
  const all = [inSession(scope === "ai" ? "chat" : "editor", "-"), asServer("-")];
  return all.filter((call) => has(nameOf(call.credential))).map(({ credential, origin }) => ({ credential, origin }));
};

/** Returns the caller number `i`, counted round; -1 is the last. The rule's needs must ensure that there is one. */
export const callerOf = (context: Context, scope: "ai" | "design", i = 0): Caller => {
  const callers = callersOf(context, scope);
  return callers.at(i % callers.length) as Caller;
};

/** The runtime routes that every deployment has, so without the reference's extensions. */
export const RUNTIME_ROUTES: readonly RouteName[] = [
  ...(["chat.control", "chat.summary", "chat.button", "chat.route", "poi.enrich"] as const),
  ...(["design.analyze", "design.apply", "design.styles", "design.samples", "design.themes"] as const),
];

export const scopeOf = (route: RouteName): "ai" | "design" => (route.startsWith("design.") ? "design" : "ai");
