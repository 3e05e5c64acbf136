import { describe, expect, test } from "vitest";
import { chooseStyle, type Style, type StyleChoice } from "./style-precedence.ts";

describe("styleUrl > styleId > stored basemap_style_id > svc-morning (item 35)", () => {
  const url = "https://styles.example/a.json";
  test.each<[string, StyleChoice, Style]>([
    ["nothing given", {}, { id: "svc-morning" }],
    ["only what the organization stored", { basemap_style_id: "svc-dusk" }, { id: "svc-dusk" }],
    ["an id beats what is stored", { styleId: "mine", basemap_style_id: "svc-dusk" }, { id: "mine" }],
    ["a URL beats both", { styleUrl: url, styleId: "mine", basemap_style_id: "svc-dusk" }, { url }],
    ["an empty text chooses nothing", { styleUrl: "", styleId: "", basemap_style_id: "svc-dusk" }, { id: "svc-dusk" }],
    ["nor does null", { styleUrl: null, styleId: null, basemap_style_id: null }, { id: "svc-morning" }],
  ])("%s", (_, choice, style) => {
    expect(chooseStyle(choice)).toEqual(style);
  });
});
