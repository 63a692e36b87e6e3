// Runs before the first paint, so that a chosen theme never flashes in the other one. It stands alone:
// whatever it imported would have to arrive first.
try {
  const theme: unknown = JSON.parse(window.localStorage.getItem("console.theme") ?? "null");
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset["theme"] = theme;
  }
} catch {
  // Without storage the system's theme holds.
}
