/** Finds the event that ends a kind of stream (item 173): the last one of two streams, only there, without content. */
import { chmod, lstat, readFile } from "node:fs/promises";
import { foreignId, foreignName, isWord } from "../../contract/foreign-text.ts";
import { isError, isObject, parseJson } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type RouteName, routeOf, type Stream } from "../../contract/routes.ts";
import { ERROR_EVENT, NO_LAST_EVENT, STREAMS, type StatedStreamEnds, VOCABULARIES } from "../../contract/streams.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { withMember } from "../../target/edit-members.ts";
import type { Target } from "../../target/target.ts";
import type { CredentialRef, StepWish } from "../../workload/step.ts";
import { type Finding, finding } from "./finding.ts";
import { type Answered, isPassing, refusalAdvice, type SingleCalls, UNCODED } from "./single-calls.ts";

const CALLS_PER_KIND = 2;

const routeOfKind = (kind: Stream): RouteName => ROUTE_NAMES.find((name) => routeOf(name).stream === kind) as RouteName;

/** A caller that may open a stream: a role that works (a server key needs no session), else a tenant's server key. */
const callerOf = ({ tenants = [] }: Target, works: ReadonlySet<string>): CredentialRef | null => {
  if (works.has("server")) return { as: "server", of: "role:server" };
  if (works.has("publishable")) return { as: "session", of: "role:publishable", product: "chat" };
  const tenant = tenants.find(({ server }) => server !== undefined);
  return tenant === undefined ? null : { as: "server", of: `tenant:${tenant.org}` };
};

const NAME_MOST = 64;

const lastNameOf = (kind: Stream, { answer }: Answered): { name: string } | { why: string } => {
  const names = (answer.seen?.kept ?? []).map(({ name }) => name);
  const last = names.at(-1);
  if (last === undefined) return { why: "a stream ended without one event" };
  // Checked, because the name is written into the target file and a server may send anything.
  if (foreignId(last) !== last || last.length > NAME_MOST || !isWord(last))
    return { why: `streams end by an event whose name is no word (${foreignName(last)})` };
  if (answer.ended === "error_event" || last === ERROR_EVENT) return { why: "a stream ended by an error event" };
  const { content, done } = VOCABULARIES[kind];
  const isOfContent = names.indexOf(last) < names.length - 1 || content.includes(last) || last === "quota";
  const isRepeated = new Set(names).size < names.length;
  if (!isOfContent && !isRepeated && last !== done)
    return { why: "too few events came to tell the last from the others" };
  return isOfContent ? { why: `streams end in order behind ${last}, which is no event of its own` } : { name: last };
};

const EMPTY_ADVICE =
  "a stream without one event is no answer: does the deployment send none, or does something in between take them away?";

/** Two streams of a kind that ended in order, or a finding that says why they show no last event. */
const openStreams = async (kind: Stream, credential: CredentialRef, calls: SingleCalls) => {
  const what = `${kind} streams`;
  const unknown = (why: string): Finding => finding("skipped", what, `which event ends them is not known: ${why}`);
  const origin = credential.as === "session" ? "listed" : "none";
  const wish: StepWish = { route: routeOfKind(kind), credential, origin, via: "authorization" };
  const ended: Answered[] = [];
  try {
    for (let n = 0; n < CALLS_PER_KIND; n += 1) {
      let sent = await calls.stream(wish, n);
      if (sent.line.outcome === "401" && wish.via === "authorization" && credential.as === "server") {
        wish.via = "x-api-key";
        sent = await calls.stream(wish, n);
      }
      const { outcome, ended: how, error } = sent.line;
      if (isPassing(outcome)) return unknown(`${outcome}, the deployment is busy`);
      if (outcome !== "indeterminate" && isError(outcome, sent.line)) {
        const isEmpty = outcome.startsWith("200");
        const coded = error?.startsWith("coded-") === true ? error : null;
        const todo = isEmpty ? EMPTY_ADVICE : coded === null ? refusalAdvice(outcome, "credentials") : UNCODED;
        const got = isEmpty ? "200 and no event" : `${outcome}${coded === null ? "" : ` (${coded})`}`;
        return finding("wrong", what, `expected a stream; got ${got}`, todo);
      }
      if (sent.answer.seen === null || !/^200/.test(outcome)) return unknown(outcome);
      const isInOrder = how === "done" || how === "eof" || how === "error_event" || error === NO_LAST_EVENT;
      if (!isInOrder) return unknown(`a stream did not end in order (${error ?? how})`);
      ended.push(sent);
    }
    return ended;
  } catch (error) {
    return unknown((error as Error).message);
  }
};

/** `name`: the event to write into the file. */
type Described = readonly [found: Finding, name?: string];

const describe = (kind: Stream, ended: readonly Answered[], stated?: string): Described => {
  const what = `${kind} streams`;
  const lasts = ended.map((sent) => lastNameOf(kind, sent));
  const names = new Set(lasts.map((last) => ("name" in last ? last.name : null)));
  const [name = null] = names.size === 1 ? names : [];
  if (stated !== undefined) {
    if (ended.every(({ line }) => line.ended === "done")) return [finding("ok", what, `end by ${stated}`)];
    const came = [...(ended.at(-1)?.answer.seen?.names ?? [])].join(", ");
    const text = `expected ${stated} as their last event (stream_end.${kind}); got ${came}`;
    const advice =
      name === null
        ? `does something in between end them early, or is their last event another? Leave stream_end.${kind} out where none is sent`
        : `write "${name}" at stream_end.${kind}`;
    return [finding("wrong", what, text, advice)];
  }
  if (name !== null) return [finding("ok", what, `end by ${name}`), name];
  const reason =
    lasts.flatMap((last) => ("why" in last ? [last.why] : []))[0] ?? "two streams ended by different events";
  const rest = "so a whole one cannot be told from one that was cut in order";
  return [finding("warn", what, `no event was found that ends them: ${reason}, ${rest}`)];
};

/** Tries all kinds concurrently, because a stream may take long. `works`: names of roles whose trial succeeded. */
export const findStreamEnds = async (target: Target, calls: SingleCalls, works: ReadonlySet<string>) => {
  const none = (...findings: Finding[]) => ({ findings, found: {} as StatedStreamEnds });
  const credential = callerOf(target, works);
  if (credential === null) return none();
  if (credential.as === "session") {
    try {
      // The exchange that mints the session is a call of its own.
      calls.take(1);
      await calls.book.fetch(credential);
    } catch (error) {
      return none(finding("skipped", "streams", `not tried: ${(error as Error).message}`));
    }
  }
  const lookAt = async (kind: Stream): Promise<Described> => {
    const ended = await openStreams(kind, credential, calls);
    return Array.isArray(ended) ? describe(kind, ended, target.stream_end?.[kind]) : [ended];
  };
  const looked = await Promise.all(STREAMS.map(lookAt));
  const named = looked.flatMap(([, name], at) => (name === undefined ? [] : [[STREAMS[at], name]]));
  return { findings: looked.map(([found]) => found), found: Object.fromEntries(named) };
};

/** Adds the field behind the last member; `null` if the text is no object or has the field. */
export const withStreamEnds = (text: string, ends: StatedStreamEnds): string | null => {
  const value = parseJson(text.replace(/^\uFEFF/, ""));
  return isObject(value) && value.stream_end == null ? withMember(text, ["stream_end"], ends) : null;
};

/** Replaces the file atomically, but leaves a symbolic link alone. Returns whether the file was written. */
export const writeStreamEnds = async (file: string, ends: StatedStreamEnds): Promise<boolean> => {
  try {
    const there = await lstat(file);
    const text = there.isFile() ? withStreamEnds(await readFile(file, "utf8"), ends) : null;
    if (text === null) return false;
    await writePrivateFile(file, text);
    await chmod(file, there.mode & 0o777);
    return true;
  } catch {
    return false;
  }
};
