/** The API's part of the control plane: counts, gauges, and what an operator may change. */
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { ROUTE_NAMES } from "../../../contract/routes.ts";
import { type ControlPart, readClockOffset } from "../../control-plane.ts";
import { bodyOf, route } from "../../links/http-service.ts";
import type { ApiContext } from "../context.ts";
import { FAIL_MODES, type FailPlan } from "./deployment-state.ts";

const patchBody = Compile(
  Type.Object({
    sessions: Type.Optional(Type.Enum(["enabled", "disabled", "not_configured"])),
    global_in_flight: Type.Optional(Type.Integer({ minimum: 0 })),
    org_in_flight: Type.Optional(Type.Integer({ minimum: 0 })),
    slots: Type.Optional(Type.Integer({ minimum: 0 })),
    service_factor: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1_000 })),
    fail_next: Type.Optional(
      Type.Object({
        route: Type.Enum([...ROUTE_NAMES]),
        mode: Type.Enum([...FAIL_MODES]),
        after_events: Type.Optional(Type.Integer({ minimum: 0 })),
        count: Type.Integer({ minimum: 0 }),
      }),
    ),
  }),
);

const stateOf = ({ deployment, clock }: ApiContext) => ({
  sessions: deployment.view.sessions,
  clock_offset_ms: clock.offsetMs(),
  failures_left: deployment.failuresLeft(),
});

export const apiControl = (context: ApiContext, gauges: (collectsFirst: boolean) => object): ControlPart => ({
  routes: [
    route("GET", "/counts", ({ query }) => context.counts.of(query.get("run"))),
    route("GET", "/gauges", ({ query }) => gauges(query.get("gc") === "true")),
  ],
  deployment: () => {
    const { globalInFlight, orgInFlight } = context.shedder.caps();
    const { slots, serviceFactor } = context.inference.capacity;
    const caps = { global_in_flight: globalInFlight, org_in_flight: orgInFlight };
    return { ...stateOf(context), ...caps, slots, service_factor: serviceFactor };
  },
  readDeployment: (body) => {
    const offset = readClockOffset(body);
    const change = bodyOf(patchBody, body);
    const apply = (): Record<string, unknown> => {
      const { deployment, shedder, clock, inference } = context;
      const { sessions, global_in_flight, org_in_flight, slots, service_factor, fail_next } = change;
      if (offset !== undefined) clock.setOffsetMs(offset);
      if (sessions !== undefined) deployment.view.sessions = sessions as typeof deployment.view.sessions;
      if (global_in_flight !== undefined) shedder.setCaps({ globalInFlight: global_in_flight });
      if (org_in_flight !== undefined) shedder.setCaps({ orgInFlight: org_in_flight });
      inference.change({ slots, serviceFactor: service_factor });
      if (fail_next !== undefined) deployment.orderFailure(fail_next as FailPlan);
      context.log.info(body, "the deployment was changed");
      return stateOf(context);
    };
    return { apply };
  },
});
