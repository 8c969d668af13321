/** Starts the page of a run. */

document.documentElement.classList.remove("starting")
