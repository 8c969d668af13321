import { test } from "node:test"
import assert from "node:assert/strict"
import { readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const APP = fileURLToPath(new URL("../../app/", import.meta.url))
/** From the lowest to the highest: a folder imports from those before it, and from no other. */
const FOLDERS = [
  "lib/text",
  "lib/data",
  "lib/tables",
  "lib/picture",
  "gl",
  "worker",
  ".",
  "views/shared",
  "views/drawing",
  "views/panels",
  "views/timeline",
  "views/page",
  "run/data",
  "run/picture",
  "run",
  "run/views",
]
const MOST_MODULES = 20

const modules = readdirSync(APP, { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !/\.test\.ts$|^lib\/testing/.test(file),
)

/** The modules that each one imports, for types included. */
const imports = new Map(modules.map((file) => [file, importsOf(file)]))

function importsOf(file: string): string[] {
  const text = readFileSync(join(APP, file), "utf8")
  return Array.from(text.matchAll(/\b(?:from|import)[ (]"(\.[^"]+)"/g), ([, from]) => `${join(dirname(file), from)}.ts`)
}

test("every folder has its place, and few modules", () => {
  const folders = modules.map((file) => dirname(file))
  assert.deepEqual([...new Set(folders)].sort(), [...FOLDERS].sort())
  for (const folder of FOLDERS) assert.ok(folders.filter((each) => each === folder).length <= MOST_MODULES, folder)
})

test("no two modules have one name", () => {
  const names = modules.map((file) => basename(file))
  assert.deepEqual(
    names.filter((name, k) => names.indexOf(name) !== k),
    [],
  )
})

test("imports go downwards", () => {
  for (const file of modules.filter((file) => !/^(run\/run_)?main.ts$/.test(file))) {
    for (const other of imports.get(file)!.map((each) => dirname(each))) {
      assert.ok(FOLDERS.indexOf(other) <= FOLDERS.indexOf(dirname(file)), `${file} imports from ${other}`)
    }
  }
})

test("no circle among modules", () => {
  const done = new Set<string>()
  const follow = (file: string, path: string[]) => {
    assert.ok(!path.includes(file), `a circle: ${[...path.slice(path.indexOf(file)), file].join(" -> ")}`)
    if (done.has(file)) return
    for (const other of imports.get(file) ?? []) follow(other, [...path, file])
    done.add(file)
  }
  for (const file of modules) follow(file, [])
})
