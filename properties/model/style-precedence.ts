/**
 * Which basemap style an embed shows (specification 2.2, item 35): `styleUrl` > `styleId` > the organization's stored
 * `basemap_style_id` > `svc-morning`. The rule is the SDK's; no server or caller here uses it, so only the laws contain it.
 */

/** The only style that the specification names: shown if no style is chosen. */
export const DEFAULT_STYLE = "svc-morning";

export type StyleChoice = {
  styleUrl?: string | null;
  styleId?: string | null;
  /** From the session exchange; absent if the organization stored none, or the server is of an older revision (item 16). */
  basemap_style_id?: string | null;
};

/** Where the style comes from, so that a URL and an id are never confused. Empty texts choose nothing. */
export type Style = { url: string } | { id: string };

export const chooseStyle = (choice: StyleChoice): Style => {
  if (choice.styleUrl) return { url: choice.styleUrl };
  return { id: choice.styleId || choice.basemap_style_id || DEFAULT_STYLE };
};
