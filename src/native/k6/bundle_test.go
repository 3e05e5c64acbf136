package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func bundled(t *testing.T, files map[string]string, known map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(folder, "out.js")
	if err := bundle(filepath.Join(folder, "main.ts"), out, known); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var scenario = map[string]string{
	"main.ts": `
		import sse from "k6/x/sse";
		import http from "k6/http";
		import { one } from "./one.ts";
		import { other } from "./other.ts";
		export const options: unknown = {};
		export const own = require("k6/x/own");
		export default () => (__ENV.HOW === undefined ? other(http) : one(sse));`,
	"package.json": `{ "sideEffects": false }`,
	"one.ts":       `export const one = (n: unknown): unknown => ["only one", n]; export const unused = () => "unused";`,
	"other.ts":     `export const table = new Map([["only", "other"]]); export const other = (n: unknown) => table.get("only other");`,
}

func TestOneScriptHasAllThatIsUsedAndNothingElse(t *testing.T) {
	text := bundled(t, scenario, nil)
	for _, wanted := range []string{"only one", "only other", `from "k6/x/sse"`, `from "k6/http"`, `require("k6/x/own")`, "options"} {
		if !strings.Contains(text, wanted) {
			t.Errorf("expected %q in %s", wanted, text)
		}
	}
	if strings.Contains(text, "unused") || strings.Contains(text, "./one") {
		t.Errorf("expected nothing that is not used and no import of a file in %s", text)
	}
}

func TestWhatIsKnownDecidesWhatIsLeftOut(t *testing.T) {
	text := bundled(t, scenario, map[string]string{"HOW": `a "path"`})
	if !strings.Contains(text, "only one") || strings.Contains(text, "other") {
		t.Errorf("expected one and not the other in %s", text)
	}
}

func TestAScriptThatCannotBeReadIsAnError(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "main.ts")
	if err := os.WriteFile(path, []byte("export default => {"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "out.js")
	if err := bundle(path, out, nil); err == nil {
		t.Error("expected an error")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("expected no file")
	}
}
