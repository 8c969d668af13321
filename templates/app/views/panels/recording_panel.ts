/** What the file says of the recording: the sections of the page without script, in a panel. */

import { copyButton } from "../shared/clipboard"
import { h } from "../shared/dom"
import type { Panel } from "./panels"

export class RecordingPanel implements Panel {
  readonly element = h("div", { class: "recording-panel" })

  /** `sections`: taken out of the page, which shows them here from now on. */
  constructor(sections: Element[]) {
    this.element.append(...sections)
    for (const code of this.element.querySelectorAll(".better pre")) {
      code.after(copyButton("Copy", "These lines, to paste into the program", () => code.textContent ?? ""))
    }
  }

  update(): void {}
}
