/** The reader's choices, kept if the browser lets a file store them. */

export function keptSetting(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null // no storage: as the page opens
  }
}

export function keepSetting(key: string, value: string): void {
  try {
    localStorage.setItem(key, value)
  } catch {
    // as above
  }
}
