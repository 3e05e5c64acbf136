/** The view of a target file, for those who hold one. */
export { type TenantReadings, viewOf } from "../workload/view-of-target.ts";
