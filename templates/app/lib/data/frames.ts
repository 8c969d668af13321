/** What kind of code a frame is, and its texts. */

import type { Stacks } from "./device"
import { oncePer } from "./known"

/** The user's own code; an installed package; or torch, the standard library and C++ under them. */
export type FrameKind = "user" | "library" | "runtime"

const NO_FILE = /^(\?\?|none)?$/
const PACKAGES = /(^|[/\\])(site|dist)-packages[/\\]/

// Two of the kinds in `model/findings.py`.
const OUTSIDE = 0
const NODE = 2

/** Whether folding keeps a frame: code outside of PyTorch, and autograd nodes. */
export function isKept(stacks: Stacks, frame: number): boolean {
  return stacks.frameKind[frame] === OUTSIDE || stacks.frameKind[frame] === NODE
}

/** The kind of a frame as it is shown: the analysis' kinds, with installed packages as a kind of their own. */
export function frameKind(stacks: Stacks, frame: number): FrameKind {
  if (stacks.frameKind[frame] !== OUTSIDE) return "runtime"
  const file = stacks.strings[stacks.frameFile[frame]]
  const folder = file.slice(0, Math.max(file.indexOf("/"), 0))
  return PACKAGES.test(file) || (folder && stacks.packages.includes(folder)) ? "library" : "user"
}

/** The texts of a frame, or a reason why some allocations have none. */
export interface Line {
  /** Frame id, or -1. */
  frame: number
  /** As `shortName` gives it. */
  name: string
  fullName: string
  file: string
  /** The file's own name and line, `train.py:71`; empty where no file is known. */
  place: string
  /** Null where unknown. */
  line: number | null
  /** The full path and line, `/home/me/train.py:71`; empty where no file is known. */
  path: string
  /** The line's text; empty where it was not noted. */
  code: string
}

export function withoutFrame(reason: string): Line {
  return { frame: -1, name: reason, fullName: reason, place: "", file: "", line: null, path: "", code: "" }
}

/** The texts of a frame. C++ frames often have no file (`??`) and no line (0). */
export function frameText(stacks: Stacks, frame: number): Line {
  const fullName = stacks.strings[stacks.frameName[frame]]
  const file = stacks.strings[stacks.frameFile[frame]]
  const knownFile = !NO_FILE.test(file)
  const line = stacks.frameLine[frame] > 0 ? stacks.frameLine[frame] : null
  const place = knownFile ? placeOf(file, line) : ""
  const code = stacks.strings[stacks.frameCode?.[frame] ?? -1] ?? ""
  const path = knownFile ? (line === null ? file : `${file}:${line}`) : ""
  return { frame, name: shortName(fullName), fullName, file: knownFile ? file : "", place, line, path, code }
}

/** The texts of a frame in a tree: autograd and compiled code are called by what they do.
 *
 * Compiled code, the only Python with a name of its own, has no place: nobody knows the generated file.
 */
export function treeText(stacks: Stacks, frame: number): Line {
  const text = frameText(stacks, frame)
  const name = stacks.strings[stacks.treeName[frame]]
  if (name === undefined) return text
  return { ...text, name, place: isCompiled(stacks, frame) ? "" : text.place }
}

/** Whether a frame is of a file that Inductor generated. */
export const isCompiled = ({ strings, treeName, frameFile }: Stacks, frame: number) =>
  treeName[frame] >= 0 && strings[frameFile[frame]].endsWith(".py")

/** The frame that stands for one in folded trees and as a call site: of a compiled graph's lines, the first. */
export function standIn(stacks: Stacks, frame: number): number {
  return standIns(stacks)[frame]
}

const standIns = oncePer((stacks: Stacks) => {
  const first = new Map<string, number>()
  return stacks.frameFile.map((file, each) => {
    if (!isCompiled(stacks, each)) return each
    const key = `${file} ${stacks.treeName[each]}`
    if (!first.has(key)) first.set(key, each)
    return first.get(key)!
  })
})

/** The texts of a frame that is a call site. */
export function siteText(stacks: Stacks, frame: number): Line {
  const text = treeText(stacks, frame)
  return { ...text, name: stacks.strings[stacks.siteName[frame]] ?? text.name }
}

export function placeOf(file: string, line: number | null): string {
  const base = file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1)
  if (NO_FILE.test(base)) return ""
  return line ? `${base}:${line}` : base
}

/** `at::native::mul(at::Tensor const&)` is `at::native::mul`, as call sites are named; Python's names stay. */
export function shortName(name: string): string {
  if (!name.includes("::")) return name
  const cut = name.replace(/\((?!anonymous namespace\)|\)\()[\s\S]*$/, "")
  return cut.replace(/^torch::autograd::generated::/, "") || name
}
