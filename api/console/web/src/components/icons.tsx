// Strokes instead of a font: each icon is one path on a 24 by 24 grid.
const paths = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  playground: "M4 10v4M8 6v12M12 3v18M16 7v10M20 10v4",
  history: "M3.5 12a8.5 8.5 0 1 0 2.6-6.1L3.5 8.4M3.5 4v4.4h4.4M12 7.5V12l3 2",
  keys: "M15.5 8.5h.01M21 8.5a5.5 5.5 0 0 1-7.3 5.2L11 16.5H8.5V19H6v2H3v-3.3l7.3-7.4A5.5 5.5 0 1 1 21 8.5z",
  usage: "M4 20h16M7 16v-5M12 16V5M17 16v-8",
  billing: "M3 6.5h18v12H3zM3 10.5h18M7 15h3",
  reference: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  settings: "M4 7h9M17 7h3M15 4.5v5M4 17h3M11 17h9M9 14.5v5",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6L6 18",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5M12 8h.01",
  download: "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M4 20h16",
  bin: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  pen: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.5 2",
  plus: "M12 5v14M5 12h14",
  arrow: "M5 12h14M13 6l6 6-6 6",
  stop: "M6 6h12v12H6z",
  play: "M8 5.5v13l11-6.5z",
  repeat: "M4 11V9a3 3 0 0 1 3-3h12M16 3l3 3-3 3M20 13v2a3 3 0 0 1-3 3H5M8 21l-3-3 3-3",
  help: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.300-1 .8-1 1.5v.4M12 16.5h.01",
} as const;

export type IconName = keyof typeof paths;

/** Decoration: what it means stands beside it, or in the label of its button. */
export function Icon({ name, class: className }: { name: IconName; class?: string }) {
  return (
    <svg class={`icon${className === undefined ? "" : ` ${className}`}`} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
