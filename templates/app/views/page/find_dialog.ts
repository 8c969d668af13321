/** The dialog that finds everything by its name, and goes there. */

import { formatBytes, formatExact } from "../../lib/text/format"
import { refusal } from "../../lib/text/pattern"
import { type Entry, findAmong, type Finder, type Goal } from "../../lib/tables/finder"
import { button } from "../shared/controls"
import { h, setChildren } from "../shared/dom"

/** What the open device offers to find. */
export interface Findable {
  readonly finder: Finder
  /** Its tabs. */
  readonly tabs: Entry[]
  go(goal: Goal): void
}

/** Controls that act by a word; what is in lists is found by its own name. */
const CONTROLS = "button, summary, a.show, input, option"
const ELSEWHERE = "dialog, .list, .legend, .frames, .flame, .tabs, .switch, .masthead .find, [hidden]"
const MOST_CHARACTERS = 300

/** The page's controls in sight, by the word on each, and what each does. */
function controls(): { entry: Entry; act: () => void }[] {
  const all = [...document.querySelectorAll<HTMLElement>(CONTROLS)].filter(
    (each) =>
      !each.matches(":disabled") &&
      !each.closest(ELSEWHERE) &&
      (each.closest("select, label, details > summary") ?? each).checkVisibility(),
  )
  return all.map((each, at) => {
    const word = wordOf(each)
    const detail = each.title === word ? "" : each.title
    return { entry: { kind: "action", name: word, detail, goal: { to: "action", at }, bytes: null }, act: () => use(each) }
  })
}

function wordOf(control: HTMLElement): string {
  const own = control.textContent!.trim()
  const around = control.closest("select, fieldset")?.getAttribute("aria-label")
  const label = (control as HTMLInputElement).labels?.[0]?.textContent?.trim()
  const word = /\w/.test(own) ? own : (control.ariaLabel ?? label ?? control.title)
  return around ? `${around}: ${word}` : word
}

function use(control: HTMLElement): void {
  if (control instanceof HTMLOptionElement) {
    const select = control.closest("select")!
    select.value = control.value
    select.dispatchEvent(new Event("change"))
  } else if (control instanceof HTMLInputElement && !/^(checkbox|radio)$/.test(control.type)) control.focus()
  else control.click()
}

export class FindDialog {
  /** The button that opens it. */
  readonly opener = button("Find", "Find functions, files, stages, events, tabs, actions and more (Ctrl K)", () => this.open(), {
    class: "find",
    "aria-keyshortcuts": "Control+K Meta+K",
    disabled: true, // until there is something to find
  })
  private readonly input = h("input", {
    role: "combobox",
    "aria-label": "Find functions, files, stages, steps, events, addresses, tabs and actions",
    "aria-controls": "found",
    "aria-autocomplete": "list",
    placeholder: "Function, file, stage, event, address, tab, action\u2026",
    spellcheck: "false",
    autocomplete: "off",
    input: () => this.search(),
    keydown: (event: KeyboardEvent) => this.key(event),
  })
  private readonly list = h("ul", { id: "found", role: "listbox", "aria-label": "Found" })
  private readonly note = h("p.empty", { role: "status" })
  private readonly element = h(
    "dialog.help.finder",
    { "aria-label": "Find" },
    this.input,
    this.list,
    this.note,
    h("p.hint", "Bytes are those at the cursor. \u2191 and \u2193 choose, Enter goes there, Esc closes."),
  )
  private view: Findable | null = null
  private now: () => Findable | null = () => null
  private devices: Entry[] = []
  private goToDevice: (device: number) => void = () => {}
  private acts: (() => void)[] = []
  private more: Entry[] = []
  private rows: Entry[] = []
  private chosen = 0
  private preparing = 0

  constructor() {
    this.element.addEventListener("click", (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[role=option]")
      if (row) this.go(this.rows[Number(row.dataset.row)])
      else if (event.target === this.element) this.element.close()
    })
    this.element.addEventListener("close", () => clearTimeout(this.preparing))
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      event.preventDefault()
      if (this.element.open) this.element.close()
      else if (!document.querySelector("dialog[open]")) this.open()
    })
  }

  /** `now`: what the open device offers at its present moment, or null; `devices`: those to go to. */
  serve(now: () => Findable | null, devices: Entry[], goToDevice: (device: number) => void): void {
    Object.assign(this, { now, devices, goToDevice })
  }

  private open(): void {
    if (this.opener.disabled) return
    this.view = this.now()
    const acting = controls()
    this.acts = acting.map(({ act }) => act)
    this.more = [...(this.view?.tabs ?? []), ...this.devices, ...acting.map(({ entry }) => entry)]
    this.input.value = ""
    if (!this.element.isConnected) document.body.append(this.element)
    this.element.showModal()
    this.search()
    if (this.view) this.prepare(this.view.finder)
  }

  /** Adds the groups of one colouring after the other, while the reader types. */
  private prepare(finder: Finder): void {
    this.preparing = window.setTimeout(() => {
      const more = finder.addGroups()
      if (this.input.value.trim()) this.search(this.chosen)
      if (more) this.prepare(finder)
    })
  }

  private search(chosen = 0): void {
    this.note.textContent = ""
    this.rows = []
    try {
      const typed = this.input.value
      this.rows = this.view?.finder.find(typed, this.more) ?? findAmong(typed, this.more)
      if (!this.rows.length) this.note.textContent = "Nothing found"
    } catch (error) {
      this.note.textContent = refusal(error)
    }
    setChildren(this.list, this.rows.map(option))
    this.list.hidden = !this.rows.length
    this.input.setAttribute("aria-expanded", String(this.rows.length > 0))
    this.choose(chosen)
  }

  private choose(row: number): void {
    this.chosen = Math.max(Math.min(row, this.rows.length - 1), 0)
    ;[...this.list.children].forEach((each, k) => each.setAttribute("aria-selected", String(k === this.chosen)))
    const at = this.list.children[this.chosen]
    at?.scrollIntoView({ block: "nearest" })
    if (at) this.input.setAttribute("aria-activedescendant", at.id)
    else this.input.removeAttribute("aria-activedescendant")
  }

  private key(event: KeyboardEvent): void {
    const { chosen, rows } = this
    const page = 10
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + page, PageUp: chosen - page }[event.key]
    if (to !== undefined) this.choose(to === rows.length ? 0 : to < 0 && event.key === "ArrowUp" ? rows.length - 1 : to)
    else if (event.key === "Enter" && rows[chosen]) this.go(rows[chosen])
    else return
    event.preventDefault()
  }

  private go({ goal }: Entry): void {
    this.element.close()
    if (goal.to === "action") this.acts[goal.at]()
    else if (goal.to === "device") this.goToDevice(goal.at)
    else this.view?.go(goal)
  }
}

/** A row; `aria-selected` is set afterwards. */
function option({ kind, name, detail, bytes }: Entry, row: number): HTMLElement {
  return h(
    "li",
    { role: "option", id: `found-${row}`, "data-row": row },
    h("span.kind", kind),
    h("span.name", h("b", name.slice(0, MOST_CHARACTERS)), " ", h("small", detail.slice(0, MOST_CHARACTERS))),
    h("span.num", { title: bytes === null ? null : formatExact(bytes) }, bytes === null ? "" : formatBytes(bytes)),
  )
}
