/** A state with listeners that are called when it changes. */

export abstract class Observed<S> {
  protected abstract current: S
  private readonly listeners = new Set<(state: S, before: S) => void>()

  get state(): S {
    return this.current
  }

  /** Calls back at each change, until `signal` ends it. */
  on(listener: (state: S, before: S) => void, signal?: AbortSignal): void {
    this.listeners.add(listener)
    signal?.addEventListener("abort", () => this.listeners.delete(listener))
  }

  /** Calls back now, and at each change of one of these parts, until `signal` ends it. */
  watch(parts: readonly (keyof S)[], listener: () => void, signal?: AbortSignal): void {
    listener()
    this.on((state, before) => differs(state, before, ...parts) && listener(), signal)
  }

  /** Notifies the listeners of a change from an earlier state. */
  protected tell(before: S): void {
    const { current } = this
    for (const listener of this.listeners) {
      try {
        listener(current, before)
      } catch (error) {
        reportError(error) // the other listeners are still called
      }
    }
  }
}

/** Whether one of some parts is another one in two states. */
export function differs<S>(a: S, b: S, ...parts: (keyof S)[]): boolean {
  return parts.some((part) => a[part] !== b[part])
}
