// Says what is in the built files that is not ours, by esbuild's own account of where each byte comes from.
//
// shipped/inlined.json lists every package whose code is in them, with its version, its licence and the text of that; the page's
// "About this page" shows the list. A build whose bytes come from anywhere else fails, as does one that has less.
import { readFile } from "node:fs/promises"
import { join } from "node:path"

const OURS = /^(app\/|styles\/|style\.css$)/
const PACKAGE = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//
const WRAPPER = 64 // bytes that esbuild puts around a script; helpers, which are code of its authors, are more

/** Complains, a line each, about what the list has wrong; metafile is esbuild's. */
export async function checkInlined(metafile, here) {
  const listed = JSON.parse(await readFile(join(here, "shipped", "inlined.json"), "utf8"))
  const wrong = []
  const found = new Set()
  for (const [file, output] of Object.entries(metafile.outputs)) {
    let known = 0
    for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
      known += bytesInOutput
      if (OURS.test(path) || !bytesInOutput) continue
      const name = path.match(PACKAGE)?.[1]
      if (name) found.add(name)
      else wrong.push(`${file} has code of ${path}, which is neither ours nor a package's.`)
    }
    if (output.bytes - known > WRAPPER) found.add("esbuild") // from no file: helpers of its own
  }
  for (const name of found) {
    const about = JSON.parse(await readFile(join(here, "node_modules", name, "package.json"), "utf8"))
    const entry = listed.find((each) => each.name === name)
    if (!entry) wrong.push(`${name} is inlined, and inlined.json has no entry of it.`)
    else if (entry.version !== about.version || entry.licence !== about.license || !entry.text?.trim())
      wrong.push(`inlined.json has to have version ${about.version}, licence ${about.license} and its text for ${name}.`)
  }
  for (const { name } of listed) if (!found.has(name)) wrong.push(`inlined.json lists ${name}, which is not inlined.`)
  return wrong
}
