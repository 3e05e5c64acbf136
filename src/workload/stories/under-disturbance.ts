/**
 * The stories whose load is ordinary and whose point is what happens to the deployment meanwhile: the runner brings the
 * disturbance (a slower service, a lost replica, a deploy), these only say who calls what.
 */
import type { Profile } from "../load-profiles.ts";
import { constant, ramp, spike } from "../load-profiles.ts";
import { type StepWish, stepOf } from "../step.ts";
import { capacityPerS, type ProfileWish, type Story, storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";
import { chatTenantsNeeded } from "./chat-past-capacity.ts";
import { mixRatePerS, planMix } from "./steady-mix.ts";

const servers = oncePerView((view: TargetView) => tenantsWith(view, "server"));

const mixStory = (
  name: string,
  purpose: string,
  profile: (ratePerS: number, durationS: number) => Profile,
  lengthS: number,
): Story =>
  storyOf({
    name,
    purpose,
    missing: (view) => tenantsMissing(view, "server", 4),
    profile: (view, { ratePerS, durationS = lengthS }: ProfileWish = {}) =>
      profile(ratePerS ?? mixRatePerS(view), durationS),
    plan: planMix,
  });

/** Streams alone, in turn, at a share of capacity; `habit` says what is peculiar to a call's reader. */
const streamStory = (
  name: string,
  purpose: string,
  share: number,
  lengthS: number,
  habit: (i: number) => Partial<StepWish>,
): Story =>
  storyOf({
    name,
    purpose,
    missing: (view) => tenantsMissing(view, "server", chatTenantsNeeded(view)),
    profile: (view, { ratePerS, durationS = lengthS } = {}) =>
      constant(ratePerS ?? Math.max(2, Math.round(share * (capacityPerS(view.limits) ?? 20))), durationS),
    plan: (_seed, i, view) => {
      const { org } = inTurn(servers(view), i);
      return [
        stepOf(view, i, {
          route: "chat.control",
          credential: { as: "server", of: `tenant:${org}` },
          ...habit(i),
        }),
      ];
    },
  });

export const spikeAndRecover = mixStory(
  "spike-and-recover",
  "five times the ordinary load for a while, then calm",
  (rate, s) => spike(rate, 5, s),
  20,
);
export const soak = mixStory("soak", "an ordinary day, for hours: leaks of slots, memory and sockets", constant, 3600);
export const replicaLost = mixStory("replica-lost", "ordinary load while a replica goes away", constant, 20);
export const rollingDeploy = mixStory(
  "rolling-deploy",
  "ordinary load while replicas are replaced one by one",
  constant,
  30,
);
export const coldStartUnderLoad = mixStory(
  "cold-start-under-load",
  "a start with the load already there",
  ramp.bind(null, 0),
  15,
);
export const brownout = streamStory(
  "brownout",
  "streams at a constant rate while each takes five times as long",
  0.6,
  20,
  () => ({}),
);
export const heavyTailStreams = streamStory(
  "heavy-tail-streams",
  "streams of very unequal length near capacity",
  0.8,
  20,
  () => ({}),
);
/** A third of the readers leave early; their slots have to come back. */
export const leavingReaders = streamStory(
  "leaving-readers",
  "streams whose readers leave before the end",
  0.6,
  12,
  (i) => (i % 3 === 0 ? { abort: { afterEvents: 1 + (i % 4) } } : {}),
);
/** Every second reader rests after each piece; what it holds is its own organization's, and it comes to an end. */
export const slowReaders = streamStory("slow-readers", "streams half of which are read slowly", 0.3, 15, (i) =>
  i % 2 === 0 ? { slowReadMs: 50 } : {},
);
