// Builds app/ (a report's program and a run's), live.css inside of these, and style.css into shipped/built/, minified; with --check only says whether that is stale, and
// with --metafile=FILE writes where each byte comes from.
import { build } from "esbuild"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { checkInlined } from "./inlined.mjs"

const here = dirname(fileURLToPath(import.meta.url))
const options = { absWorkingDir: here, bundle: true, minify: true, write: false, outdir: "shipped/built" }
const live = await build({ ...options, entryPoints: ["live.css"] })
const program = (entryPoints, compares) => ({
  ...options,
  entryPoints,
  define: { LIVE_STYLE: JSON.stringify(live.outputFiles[0].text), COMPARES: String(compares) },
  metafile: true,
  format: "iife",
  target: ["chrome110", "firefox115", "safari16.4"],
  charset: "ascii", // the page is UTF-8, but the worker's Blob and odd mail gateways need not be
  legalComments: "none",
})
const results = [
  await build(program({ app: "app/main.ts", run: "app/run/run_main.ts", style: "style.css" }, false)),
  await build(program({ compare: "app/main.ts" }, true)),
]
const outputFiles = results.flatMap((each) => each.outputFiles)
const [{ inputs }] = results.map((each) => each.metafile)
const all = { inputs, outputs: Object.assign({}, ...results.map((each) => each.metafile.outputs)) }

const wrong = await checkInlined(all, here)
if (wrong.length) {
  for (const line of wrong) console.error(line)
  process.exit(1)
}
const metafile = process.argv.find((each) => each.startsWith("--metafile="))
if (metafile) await writeFile(metafile.slice("--metafile=".length), JSON.stringify(all))

let stale = false
await mkdir(join(here, "shipped", "built"), { recursive: true })
for (const file of outputFiles) {
  const old = await readFile(file.path, "utf8").catch(() => "")
  if (old === file.text) continue
  stale = true
  if (!process.argv.includes("--check")) await writeFile(file.path, file.text)
}
if (stale && process.argv.includes("--check")) {
  console.error("templates/shipped/built is stale; run: make front")
  process.exit(1)
}
for (const file of outputFiles) {
  console.log(`${file.path.slice(here.length + 1)}  ${file.contents.length} bytes`)
}
