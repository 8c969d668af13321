// Bundles every app/**/*.test.ts and runs them with node's own test runner.
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { readdir, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
const out = join(here, "node_modules", ".tests")
const files = (await readdir(join(here, "app"), { recursive: true })).filter((f) => f.endsWith(".test.ts"))
await rm(out, { recursive: true, force: true })
await build({
  absWorkingDir: here,
  entryPoints: files.map((f) => join("app", f)),
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: out,
  outbase: "app",
  outExtension: { ".js": ".mjs" },
  sourcemap: "inline",
})
const built = files.map((f) => join(out, f.replace(/\.ts$/, ".mjs")))
const run = spawnSync(process.execPath, ["--test", "--enable-source-maps", ...built], { stdio: "inherit" })
process.exit(run.status ?? 1)
