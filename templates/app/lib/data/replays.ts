/** What other settings of the allocator would have reserved over the recording, by the model. */

import { type Bytes, Changes } from "./curves"
import type { Payload, ReplayHeader } from "./payload"

/** One setting without a limit, thinned to the maximum of each run of events. */
export interface Replay {
  settings: string
  curve: Bytes
  most: number
}

export function readReplays(payload: Payload, headers: ReplayHeader[], events: number): Replay[] {
  return headers.map(({ settings, event, bytes }) => {
    const values = payload.floats(bytes)
    return { settings, curve: new Changes(payload.ints(event), values, events + 1), most: Math.max(...values) }
  })
}
