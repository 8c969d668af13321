import assert from "node:assert/strict"
import test from "node:test"
import { Budget, PatternError, patternTest as made } from "./pattern"

const patternTest = (source: string) => made(source, new Budget())

const PARTS = [
  "a",
  "b",
  "A",
  "_",
  ".",
  "\\.",
  "\\d",
  "\\w",
  "\\W",
  "\\s",
  "\\b",
  "\\B",
  "^",
  "$",
  "[ab]",
  "[^a]",
  "[a-c1]",
  "[\\d_]",
  "[^\\w]",
  "1",
  "\\x61",
  "\u00e9",
  "\u00c9",
  " ",
  "{",
  "]",
  "a{2}",
  "b{1,2}",
  "[\\D]",
]
const TIMES = ["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{0,2}", "{1,}", "{0}"]
const LETTERS = ["a", "b", "A", "B", "_", ".", "1", " ", "\u00e9", "\u00c9", "\n", "{", "]", "\u212a", "\u017f", "k", "s"]

/** A small generator of random numbers, the same in every run. */
function random(seed: number): () => number {
  return () => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31
}

function expression(next: () => number, depth = 0): string {
  const one = (): string => {
    const part =
      depth < 3 && next() < 0.3 ? `(${next() < 0.5 ? "?:" : ""}${expression(next, depth + 1)})` : PARTS[Math.floor(next() * PARTS.length)]
    return /^(\^|\$|\\b|\\B)$/i.test(part) || part.endsWith("}") ? part : part + TIMES[Math.floor(next() * TIMES.length)]
  }
  const all = Array.from({ length: Math.floor(next() * 4) }, one).join("")
  return next() < 0.2 ? `${all}|${one()}` : all
}

test("what matches is what the browser's own expressions match", () => {
  const next = random(7)
  let compared = 0
  for (let k = 0; k < 4000; k++) {
    const source = expression(next)
    const [ours, theirs] = [patternTest(source), new RegExp(source, "i")]
    for (let each = 0; each < 8; each++) {
      const text = Array.from({ length: Math.floor(next() * 7) }, () => LETTERS[Math.floor(next() * LETTERS.length)]).join("")
      assert.equal(ours(text), theirs.test(text), `/${source}/i on ${JSON.stringify(text)}`)
      compared++
    }
  }
  assert.equal(compared, 32_000)
})

test("what is no expression is refused, and so is looking ahead or back", () => {
  for (const source of ["(", ")", "a)", "[", "*", "a**", "^*", "a{2,1}", "[b-a]", "\\", "(?:a", "|*"]) {
    assert.throws(
      () => patternTest(source),
      (error: Error) => error instanceof PatternError && error.message === "Not a regular expression",
      source,
    )
  }
  for (const source of ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(a)\\1", "\\p{L}"]) {
    assert.throws(() => patternTest(source), /Lookahead and lookbehind/, source)
  }
  for (const source of ["a".repeat(501), "a{9999}", "((a{99}){99}){99}", "(".repeat(400)])
    assert.throws(() => patternTest(source), PatternError)
})

test("no expression takes long on a name of 100,000 characters", () => {
  const sources = [
    "(x+)+y",
    "(x*)*y",
    "(x|x)*y",
    "(x|xx)+y",
    "x*x*x*x*x*y",
    "(.*)*y",
    "^(x+x+)+y",
    "(x?){300}y",
    "\\b(\\w+\\s?)*$y",
    "(x|\\w)*x(x|\\w){12}y",
  ]
  for (const letter of ["x", "xz ", "xzzzzxxz"]) {
    const name = letter.repeat(Math.ceil(100_000 / letter.length))
    for (const source of sources) {
      const begun = performance.now()
      try {
        assert.equal(patternTest(source)(name), false, source)
      } catch (error) {
        assert.ok(error instanceof PatternError, source)
      }
      const took = performance.now() - begun
      assert.ok(took < 5000, `/${source}/ on ${letter}: ${took.toFixed(0)} ms`)
    }
  }
})

test("what repeats nothing is written out no further", () => {
  for (const nothing of ["()", "(?:|)", "(a{0})", "(()|)"]) {
    const begun = performance.now()
    try {
      assert.equal(patternTest(`^(((${nothing}{9999}){9999}){9999}){9999}b$`)("b"), true)
    } catch (error) {
      assert.ok(error instanceof PatternError, nothing)
    }
    assert.ok(performance.now() - begun < 1000, nothing)
  }
})

test("a search over a whole file ends in time, too", () => {
  const passes = patternTest("(x|\\w)*x(x|\\w){200}y")
  let seed = 3
  const name = () => Array.from({ length: 1000 }, () => ((seed = (seed * 1103515245 + 12345) % 2 ** 31) & 65536 ? "x" : "z")).join("")
  assert.throws(() => {
    for (let k = 0; k < 20_000; k++) passes(name())
  }, /takes too long/)
})
