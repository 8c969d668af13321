// Builds app/ (a report's program and a run's) and style.css into shipped/built/, minified; with --check only says whether that is stale, and
// with --metafile=FILE writes where each byte comes from.
import { build } from "esbuild"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { checkInlined } from "./inlined.mjs"

const here = dirname(fileURLToPath(import.meta.url))
const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "app/main.ts", run: "app/run/run_main.ts", style: "style.css" },
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  outdir: "shipped/built",
  format: "iife",
  target: ["chrome110", "firefox115", "safari16.4"],
  charset: "ascii", // the page is UTF-8, but the worker's Blob and odd mail gateways need not be
  legalComments: "none",
})

const wrong = await checkInlined(result.metafile, here)
if (wrong.length) {
  for (const line of wrong) console.error(line)
  process.exit(1)
}
const metafile = process.argv.find((each) => each.startsWith("--metafile="))
if (metafile) await writeFile(metafile.slice("--metafile=".length), JSON.stringify(result.metafile))

let stale = false
await mkdir(join(here, "shipped", "built"), { recursive: true })
for (const file of result.outputFiles) {
  const old = await readFile(file.path, "utf8").catch(() => "")
  if (old === file.text) continue
  stale = true
  if (!process.argv.includes("--check")) await writeFile(file.path, file.text)
}
if (stale && process.argv.includes("--check")) {
  console.error("templates/shipped/built is stale; run: make front")
  process.exit(1)
}
for (const file of result.outputFiles) {
  console.log(`${file.path.slice(here.length + 1)}  ${file.contents.length} bytes`)
}
