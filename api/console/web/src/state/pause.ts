/** Ends early when the connection comes back. */
export function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = window.setTimeout(done, seconds * 1000);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
