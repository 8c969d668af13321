/** Buttons that copy text, and say so. */

import { button } from "./controls"
import { h } from "./dom"

/** Whether the text reached the clipboard. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // Pages that a browser does not call secure may still copy what is selected.
    const area = h("textarea.hidden")
    area.value = text
    document.body.append(area)
    area.select()
    const done = document.execCommand("copy")
    area.remove()
    return done
  }
}

const SAID_MS = 1600

/** A button that copies what `text` gives, and says for a moment that it did. */
export function copyButton(label: string, title: string, text: () => string): HTMLButtonElement {
  const made = button(
    label,
    title,
    async () => {
      made.textContent = (await copy(text())) ? "Copied" : "Could not copy"
      setTimeout(() => (made.textContent = label), SAID_MS)
    },
    { class: "copy", "aria-live": "polite" },
  )
  return made
}

/** A button that copies the address of the view. */
export function copyLinkButton(): HTMLButtonElement {
  const title = "The address of this view: it works for everyone who has this file under the same name"
  return copyButton("Copy link", title, () => location.href)
}

/** Adds a copy button after each of some pieces of code. */
export function offerCopies(pieces: Iterable<Element>): void {
  for (const code of pieces) {
    code.after(copyButton("Copy", "These lines, to paste into the program", () => code.textContent ?? ""))
  }
}
