/** The API's part of the control plane (interface.md section 4): counts, gauges, and what an operator may change. */
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { ROUTE_NAMES, type RouteName } from "../../../contract/routes.ts";
import { type ControlPart, readClockOffset } from "../../control-plane.ts";
import { RequestError } from "../../links/http-service.ts";
import type { ApiContext } from "../context.ts";
import { FAIL_MODES, type FailMode } from "./deployment.ts";

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

export const apiControl = (context: ApiContext, gauges: (collectsFirst: boolean) => object): ControlPart => ({
  routes: [
    {
      method: "GET",
      path: "/counts",
      handle: ({ query }) => ({ status: 200, body: context.counts.of(query.get("run")) }),
    },
    {
      method: "GET",
      path: "/gauges",
      handle: ({ query }) => ({ status: 200, body: gauges(query.get("gc") === "true") }),
    },
  ],
  deployment: () => {
    const { deployment, shedder, clock, inference } = context;
    const { globalInFlight, orgInFlight } = shedder.caps();
    const { slots, serviceFactor } = inference.capacity;
    return {
      sessions: deployment.view.sessions,
      clock_offset_ms: clock.offsetMs(),
      global_in_flight: globalInFlight,
      org_in_flight: orgInFlight,
      slots,
      service_factor: serviceFactor,
      failures_left: deployment.failuresLeft(),
    };
  },
  readDeployment: (body) => {
    const offset = readClockOffset(body);
    if (!patchBody.Check(body)) {
      const wrong = patchBody.Errors(body)[0];
      throw new RequestError(422, `${wrong?.instancePath || "the body"} ${wrong?.message ?? "does not fit"}`);
    }
    const apply = (): Record<string, unknown> => {
      const { deployment, shedder, clock, inference } = context;
      if (offset !== undefined) clock.setOffsetMs(offset);
      if (body.sessions !== undefined) deployment.view.sessions = body.sessions as typeof deployment.view.sessions;
      if (body.global_in_flight !== undefined) shedder.setCaps({ globalInFlight: body.global_in_flight });
      if (body.org_in_flight !== undefined) shedder.setCaps({ orgInFlight: body.org_in_flight });
      const { slots, service_factor: serviceFactor } = body;
      if (slots !== undefined) inference.change({ slots });
      if (serviceFactor !== undefined) inference.change({ serviceFactor });
      if (body.fail_next !== undefined) {
        const { route, mode, after_events, count } = body.fail_next;
        deployment.orderFailure({
          route: route as RouteName,
          mode: mode as FailMode,
          count,
          ...(after_events === undefined ? {} : { after_events }),
        });
      }
      context.log.info(body, "the deployment was changed");
      return {
        sessions: deployment.view.sessions,
        clock_offset_ms: clock.offsetMs(),
        failures_left: deployment.failuresLeft(),
      };
    };
    return { apply };
  },
});
