// One sound at a time: whatever begins to play stops what was playing.

export function startSound(): void {
  document.addEventListener("play", (event) => {
    for (const player of document.querySelectorAll("audio")) {
      if (player !== event.target) {
        player.pause();
      }
    }
  }, true);
}
