/**
 * Which basemap style an embed shows (specification 2.2, item 35): `styleUrl` > `styleId` > the organization's stored
 * `basemap_style_id` > `svc-morning`. The rule is the SDK's: no server and no caller here decides by it, so it stands with the laws alone.
 */

/** The only style that the specification names: what is shown when nobody chose one. */
export const DEFAULT_STYLE = "svc-morning";

export type StyleChoice = {
  styleUrl?: string | null;
  styleId?: string | null;
  /** From the session exchange; absent when the organization stored none, or from an older revision (item 16). */
  basemap_style_id?: string | null;
};

/** Where the style comes from, so that a URL and an id are never confused. Empty texts choose nothing. */
export type Style = { url: string } | { id: string };

export const chooseStyle = (choice: StyleChoice): Style => {
  if (choice.styleUrl) return { url: choice.styleUrl };
  return { id: choice.styleId || choice.basemap_style_id || DEFAULT_STYLE };
};
