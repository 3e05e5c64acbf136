/** The three catalogs of the design surface (items 114-116, 120), rendered once. `svc-morning` is the style that the specification names. */

type Entry = { id: string; name: string };

const STYLES: Entry[] = [
  { id: "svc-morning", name: "Morning" },
  { id: "svc-dusk", name: "Dusk" },
  { id: "svc-night", name: "Night" },
  { id: "svc-paper", name: "Paper" },
];

const SAMPLES: Entry[] = [
  { id: "bike-counts", name: "Bicycle counts by street" },
  { id: "tree-register", name: "Trees by species" },
  { id: "rents-by-district", name: "Rents by district" },
];

const THEMES: Entry[] = [
  { id: "transit", name: "Transit" },
  { id: "real-estate", name: "Real estate" },
  { id: "outdoors", name: "Outdoors" },
];

export const CATALOGS = {
  "design.styles": JSON.stringify({ styles: STYLES }),
  "design.samples": JSON.stringify({ samples: SAMPLES }),
  "design.themes": JSON.stringify({ themes: THEMES }),
} as const;
