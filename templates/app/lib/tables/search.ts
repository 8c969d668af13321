/** Searching by text and file patterns. */

import type { Stacks } from "../data/device"
import { frameText, treeText } from "../data/frames"
import { Budget, PatternError, patternTest } from "../text/pattern"
import { ROOT, type TreeSums } from "./tree"

/** The most patterns: nobody types more, but a link may hold more. */
const MOST_TERMS = 50

export type Test = (text: string) => boolean

/** Makes a test of what a reader typed: a part of the text, a glob (`*.py`) or a `/regular expression/`.
 *
 * Matching ignores case. A glob has to match from a separator, or the start, to the end. Throws a
 * PatternError for an invalid expression; so does the test if it would take too long.
 */
export function textTest(wanted: string, budget = new Budget()): Test {
  const expression = /^\/(.+)\/$/s.exec(wanted)
  if (expression) return patternTest(expression[1], budget)
  if (/[*?]/.test(wanted)) {
    const escaped = wanted
      .replace(/[.+^${}()|[\]\\]/g, "\\$&")
      .replaceAll("*", ".*")
      .replaceAll("?", ".")
    return patternTest(`(^|[/\\\\])${escaped}$`, budget, true)
  }
  const part = wanted.toLowerCase()
  return (text) => text.toLowerCase().includes(part)
}

/** Makes a test of patterns separated by commas: a text matches any of them, and none of those after a `-`.
 *
 * Returns null if nothing was typed. */
export function filterTest(typed: string): Test | null {
  const terms = typed
    .split(",")
    .map((term) => term.trim())
    .filter((term) => term && term !== "-")
  if (!terms.length) return null
  if (terms.length > MOST_TERMS) throw new PatternError("Too many patterns")
  const budget = new Budget()
  const wanted = terms.filter((term) => !term.startsWith("-")).map((term) => textTest(term, budget))
  const unwanted = terms.filter((term) => term.startsWith("-")).map((term) => textTest(term.slice(1).trim(), budget))
  return (text) => (!wanted.length || wanted.some((test) => test(text))) && !unwanted.some((test) => test(text))
}

export type Found = ReturnType<typeof searchTree>

/** Finds the nodes under `from` whose function, file or `file:line` matches. */
export function searchTree(sums: TreeSums, stacks: Stacks, from: number, test: Test) {
  const { tree } = sums
  const ofFrame = new Int8Array(stacks.frameName.length).fill(-1)
  const matches = (node: number) => {
    const frame = tree.frame[node]
    if (frame < 0) return node !== ROOT && test(tree.label(node))
    if (ofFrame[frame] < 0) {
      const { fullName, file, path } = frameText(stacks, frame)
      ofFrame[frame] = Number([fullName, file, path, treeText(stacks, frame).name].some(test))
    }
    return ofFrame[frame] === 1
  }
  const found = {
    /** In the order of the rows when all are open. */
    nodes: [] as number[],
    isMatch: new Uint8Array(tree.size),
    /** Bytes in or below a match, each counted once. */
    bytes: 0,
    moved: 0,
  }
  const covered = new Uint8Array(tree.size)
  sums.walk(from, (node) => {
    const inside = node !== from && covered[tree.parent[node]] === 1
    const hit = matches(node)
    if (hit) {
      found.nodes.push(node)
      found.isMatch[node] = 1
      if (!inside) {
        found.bytes += sums.bytes[node]
        found.moved += sums.moved[node]
      }
    }
    covered[node] = Number(hit || inside)
    return true
  })
  return found
}
