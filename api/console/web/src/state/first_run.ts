// Whether the first run is still offered: until a sound was made in it, or somebody would rather not. What an account has
// otherwise tells nothing: an operator may have made a key for it, and somebody else a sound.
import { recall, remember } from "./storage";

const name = "first-run-hidden";

export function isFirstRunOver(): boolean {
  return recall("browser", name) === true;
}

export function endFirstRun(): void {
  remember("browser", name, true);
}
