import type { RouteName } from "../contract/routes.ts";

/** Routes of every deployment: without the reference's extensions. */
export const RUNTIME_ROUTES: readonly RouteName[] = [
  ...(["chat.control", "chat.summary", "chat.button", "chat.route", "poi.enrich"] as const),
  ...(["design.analyze", "design.apply", "design.styles", "design.samples", "design.themes"] as const),
];
