/** Regular expressions whose time is bounded by the length of the text, whoever wrote them.
 *
 * A link may hold one, and a stranger's names may be long: the browser's own engine tries every way to match, for `(x+)+y` twice
 * as many per `x`. Here all ways are followed at once, and the sets of places that occur are kept (a lazily built automaton), so
 * there is no lookahead and no lookbehind. Matching ignores case. */

/** Why an expression cannot be searched for. */
export class PatternError extends Error {}

/** The message of a refused expression; rethrows any other error. */
export function refusal(error: unknown): string {
  if (error instanceof PatternError) return error.message
  throw error
}

type Ranges = [from: number, to: number][]
type Node =
  | { kind: "set"; ranges: Ranges; not: boolean }
  | { kind: "assert"; what: string }
  | { kind: "all" | "any"; parts: Node[] }
  | { kind: "repeat"; part: Node; least: number; most: number }

/** A place in the expression: takes a character, continues at one or two others, or is the end. */
interface Place {
  ranges?: Ranges
  not?: boolean
  assert?: string
  to: number
  or: number
}

/** A set of places, before what comes next is known. */
interface State {
  places: number[]
  before: number
  next: Map<number, State | null>
}

const MOST_CHARACTERS = 500
const MOST_PLACES = 2000
/** The most steps of the automaton that are kept. */
const MOST_KEPT = 50_000

/** The work that all patterns of one search may do together: about a second. */
export class Budget {
  private left = 3e7

  spend(work: number): void {
    this.left -= work
    if (this.left < 0) throw new PatternError("This search takes too long here")
  }
}

const [START, WORD, OTHER, END] = [0, 1, 2, -1]
/** Ranges of characters, by the first and the last of each. */
const ranges = (...ends: number[]): Ranges => ends.flatMap((from, k) => (k % 2 ? [] : [[from, ends[k + 1]]]))
const DIGITS = ranges(48, 57)
const WORDS = ranges(48, 57, 65, 90, 95, 95, 97, 122)
const SPACES = ranges(9, 13, 32, 32, 160, 160, 5760, 5760, 8192, 8202, 8232, 8233, 8239, 8239, 8287, 8287, 12288, 12288, 65279, 65279)
const LINES = ranges(10, 10, 13, 13, 8232, 8233)
const CLASSES: Record<string, Ranges> = { d: DIGITS, w: WORDS, s: SPACES }
const CONTROLS: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, "0": 0 }

/** Makes a test of a text for an expression; `dotAll`: a dot is any character. Throws a `PatternError` for an expression that
 * is not supported; so does the test if it takes too long. */
export function patternTest(source: string, budget: Budget, dotAll = false): (text: string) => boolean {
  const { places, start } = compile(new Parser(source, dotAll).whole())
  let kept = 0
  let states = new Map<string, State>()
  const stateOf = (of: number[], before: number): State => {
    const key = `${before} ${of}`
    let state = states.get(key)
    if (!state) states.set(key, (state = { places: of, before, next: new Map() }))
    return state
  }
  /** The state after a character; null if a match ends before it. */
  const step = ({ places: from, before, next }: State, c: number): State | null => {
    const seen = new Set<number>()
    const reached = new Set<number>()
    const waiting = [...from, start]
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      if (seen.has(at)) continue
      seen.add(at)
      const { ranges, not, assert, to, or } = places[at]
      if (to < 0) {
        next.set(c, null)
        return null
      }
      if (ranges) {
        if (c !== END && (has(ranges, c) || has(ranges, upper(c))) !== not) reached.add(to)
      } else if (!assert || holds(assert, before, c)) {
        waiting.push(to)
        if (or >= 0) waiting.push(or)
      }
    }
    budget.spend(4 * seen.size) // against a character whose step is known
    kept += reached.size + 1
    if (kept > MOST_KEPT) {
      states = new Map()
      next.clear()
      kept = 0
    }
    const state = stateOf(
      [...reached].sort((a, b) => a - b),
      has(WORDS, c) ? WORD : OTHER,
    )
    next.set(c, state)
    return state
  }
  return (text) => {
    let state: State = stateOf([], START)
    budget.spend(text.length)
    for (let i = 0; i <= text.length; i++) {
      const c = i < text.length ? lower(text.charCodeAt(i)) : END
      const next = state.next.get(c) ?? (state.next.has(c) ? null : step(state, c))
      if (!next) return true
      state = next
    }
    return false
  }
}

function has(ranges: Ranges, c: number): boolean {
  return ranges.some(([from, to]) => from <= c && c <= to)
}

/** Letters beyond ASCII have no ASCII form, as in the browser's own expressions. */
function lower(c: number): number {
  if (c < 128) return c >= 65 && c <= 90 ? c + 32 : c
  return folded(c, String.fromCharCode(c).toLowerCase())
}

function upper(c: number): number {
  if (c < 128) return c >= 97 && c <= 122 ? c - 32 : c
  return folded(c, String.fromCharCode(c).toUpperCase())
}

function folded(c: number, other: string): number {
  return other.length === 1 && other.charCodeAt(0) >= 128 ? other.charCodeAt(0) : c
}

function holds(assert: string, before: number, c: number): boolean {
  if (assert === "^") return before === START
  if (assert === "$") return c === END
  return ((before === WORD) !== has(WORDS, c)) === (assert === "b")
}

/** Makes the places from the last to the first, so that each knows where it leads. */
function compile(node: Node): { places: Place[]; start: number } {
  const places: Place[] = [{ to: -1, or: -1 }]
  const add = (place: Place) => {
    if (places.length >= MOST_PLACES) throw new PatternError("This pattern is too long")
    return places.push(place) - 1
  }
  const emit = (of: Node, to: number): number => {
    switch (of.kind) {
      case "set":
        return add({ ranges: of.ranges, not: of.not, to, or: -1 })
      case "assert":
        return add({ assert: of.what, to, or: -1 })
      case "all":
        return of.parts.reduceRight((next, part) => emit(part, next), to)
      case "any":
        return of.parts.map((part) => emit(part, to)).reduce((or, each) => add({ to: each, or }))
    }
    const { part, least, most } = of
    let next = to
    if (most === Infinity) {
      next = add({ to, or: -1 })
      places[next].or = emit(part, next)
    } else for (let k = least; k < most; k++) next = add({ to, or: emit(part, next) })
    for (let k = 0; k < least; k++) {
      const after = next
      next = emit(part, after)
      if (next === after) break // nothing, which a link may repeat 9999 times 9999 times
    }
    return next
  }
  return { start: emit(node, 0), places }
}

class Parser {
  private at = 0

  constructor(
    private readonly source: string,
    private readonly dotAll: boolean,
  ) {
    if (source.length > MOST_CHARACTERS) throw new PatternError("This pattern is too long")
  }

  whole(): Node {
    const node = this.any()
    if (this.at < this.source.length) throw wrong() // a bracket that nothing opened
    return node
  }

  private take(expression: RegExp): RegExpExecArray | null {
    const found = expression.exec(this.source.slice(this.at))
    if (found) this.at += found[0].length
    return found
  }

  private any(): Node {
    const parts: Node[] = []
    do {
      const all: Node[] = []
      while (this.at < this.source.length && !/[|)]/.test(this.source[this.at])) all.push(this.repeated())
      parts.push({ kind: "all", parts: all })
    } while (this.take(/^\|/))
    return { kind: "any", parts }
  }

  private repeated(): Node {
    const part = this.one()
    const found = this.take(/^(?:[*+?]|\{(\d{1,4})(,?)(\d{0,4})\})\??/)
    if (!found) return part
    if (part.kind === "assert") throw wrong()
    const [text, count, comma, end] = found
    const least = count === undefined ? Number(text[0] === "+") : Number(count)
    const most = count === undefined ? (text[0] === "?" ? 1 : Infinity) : !comma ? least : end ? Number(end) : Infinity
    if (most < least || this.take(/^[*+?]/)) throw wrong()
    return { kind: "repeat", part, least, most }
  }

  private one(): Node {
    const c = this.source[this.at++]
    if (c === "(") {
      if (this.take(/^\?(?:<?[=!])/)) throw unknown()
      this.take(/^\?(?::|<\w+>)/)
      const node = this.any()
      if (!this.take(/^\)/)) throw wrong()
      return node
    }
    if (/[*+?]/.test(c)) throw wrong()
    if (c === "^" || c === "$") return { kind: "assert", what: c }
    if (c === ".") return { kind: "set", ranges: this.dotAll ? [] : LINES, not: true }
    if (c === "[") return this.set()
    if (c !== "\\") return only(c.charCodeAt(0))
    const edge = this.take(/^[bB]/)
    return edge ? { kind: "assert", what: edge[0] } : { kind: "set", ...this.escaped() }
  }

  private set(): Node {
    const not = this.take(/^\^/) !== null
    const ranges: Ranges = []
    while (!this.take(/^\]/)) {
      if (this.at >= this.source.length) throw wrong()
      const from = this.member()
      if (from.length === 1 && this.take(/^-(?=[^\]])/)) {
        const to = this.member()
        if (to.length !== 1 || to[0][0] < from[0][0]) throw wrong()
        ranges.push([from[0][0], to[0][0]])
      } else ranges.push(...from)
    }
    return { kind: "set", ranges, not }
  }

  private member(): Ranges {
    const c = this.source[this.at++]
    if (c !== "\\") return only(c.charCodeAt(0)).ranges
    if (this.take(/^b/)) return [[8, 8]]
    const { ranges, not } = this.escaped()
    return not ? others(ranges) : ranges
  }

  /** Reads what follows a backslash. */
  private escaped(): { ranges: Ranges; not: boolean } {
    const code = this.take(/^(?:x([0-9a-f]{2})|u([0-9a-f]{4}))/i)
    if (code) return only(parseInt(code[1] ?? code[2], 16))
    const c = this.source[this.at++]
    if (c === undefined) throw wrong()
    const known = CLASSES[c.toLowerCase()]
    if (known) return { ranges: known, not: c < "a" }
    if (/[1-9kpP]/.test(c)) throw unknown()
    return only(Object.hasOwn(CONTROLS, c) ? CONTROLS[c] : c.charCodeAt(0))
  }
}

function only(c: number): { kind: "set"; ranges: Ranges; not: boolean } {
  return { kind: "set", ranges: [[c, c]], not: false }
}

/** All characters except these ranges, which ascend. */
function others(ranges: Ranges): Ranges {
  const out: Ranges = []
  let from = 0
  for (const [first, last] of ranges) {
    if (first > from) out.push([from, first - 1])
    from = last + 1
  }
  return [...out, [from, 0xffff]]
}

function wrong(): PatternError {
  return new PatternError("Not a regular expression")
}

function unknown(): PatternError {
  return new PatternError("Lookahead and lookbehind are not supported here")
}
