/** What the file says about the recording: the page's static sections, in a panel. */

import { offerCopies } from "../shared/clipboard"
import { h } from "../shared/dom"
import type { Panel } from "./panels"

export class RecordingPanel implements Panel {
  readonly element = h("div", { class: "recording-panel" })

  /** `sections`: taken out of the page, which shows them here from now on. */
  constructor(sections: Element[]) {
    this.element.append(...sections)
    offerCopies(this.element.querySelectorAll(".better pre"))
  }

  update(): void {}
}
