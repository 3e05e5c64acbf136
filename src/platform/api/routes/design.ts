/** Recommendations and partial map specifications (items 112-113, 119): small, and the same for the same data. */

type Layer = { id: string; type: string; source: string };

/** A data set with coordinates becomes points, any other a list beside the map. */
const layersOf = (rows: readonly unknown[]): Layer[] => {
  const first = rows.find((row) => typeof row === "object" && row !== null) as Record<string, unknown> | undefined;
  const names = first === undefined ? [] : Object.keys(first).map((name) => name.toLowerCase());
  const placed = names.includes("lat") || names.includes("latitude") || names.includes("geometry");
  return [{ id: "data", type: placed ? "circle" : "list", source: "dataset" }];
};

export const answerAnalyze = (body: { dataset: { sample_rows: unknown[] } }): object => {
  const rows = body.dataset.sample_rows;
  const layers = layersOf(rows);
  return {
    recommendation: {
      style_id: "svc-morning",
      layers,
      rationale: `${rows.length} sample rows, shown as ${layers[0]?.type}`,
    },
  };
};

export const answerApply = (body: Record<string, unknown>): object => {
  const dataset = body.dataset as { sample_rows?: unknown } | null | undefined;
  const rows = Array.isArray(dataset?.sample_rows) ? dataset.sample_rows : [];
  return { map_spec: { style_id: "svc-morning", layers: layersOf(rows) } };
};
