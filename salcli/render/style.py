"""The page's one style sheet: no font, picture or script from elsewhere."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6573; --ground: #f6f7f9; --card: #fff; --line: #dfe3e8;
  --pass: #0b7a4b; --fail: #b3261e; --none: #4a5568;
  --undecided: #8a5a00; --pass-ground: #e7f5ee; --fail-ground: #fcecea;
  --none-ground: #eceff3; --undecided-ground: #fdf3dc;
  --plot-blue: #0072b2; --plot-orange: #d55e00; --plot-green: #009e73; --plot-pink: #cc79a7; --plot-gold: #b8860b;
  --plot-sky: #3b9dd6; --plot-coal: #4d4d4d; --plot-control: #767676; --plot-ink: #333; --plot-faint: #d9d9d9;
  --plot-grid: #ececec; --plot-ground: #fff; --plot-limit: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #a3adba; --ground: #14181e; --card: #1c222a; --line: #333c47;
    --pass: #5fd39c; --fail: #ff8a80; --none: #b8c1cc;
    --undecided: #f2c14e; --pass-ground: #12301f; --fail-ground: #3a1a18;
    --none-ground: #262d36; --undecided-ground: #33290f;
    --plot-blue: #5ab4f0; --plot-orange: #ff8f3f; --plot-green: #35c99b; --plot-pink: #e39bc4; --plot-gold: #e0ad3a;
    --plot-sky: #8cc8f2; --plot-coal: #c4c4c4; --plot-control: #a3a3a3; --plot-ink: #e6e9ee; --plot-faint: #48525e;
    --plot-grid: #2b333d; --plot-ground: #1c222a; --plot-limit: #ff8a80 } }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100% }
body { margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1rem 3rem }
h1, h2, h3 { line-height: 1.25 }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0 0 .75rem }
h2 { font-size: 1.3rem; margin: 2.75rem 0 .5rem }
p { max-width: 46rem; margin: .5rem 0 }
.verdict { border-left: .4rem solid var(--tone); background: var(--tone-ground); border-radius: .3rem;
  padding: 1rem 1.25rem }
.verdict p:first-child { font-size: 1.3rem; line-height: 1.35; font-weight: 650; margin: 0 }
.verdict p { max-width: 56rem }
.pass { --tone: var(--pass); --tone-ground: var(--pass-ground) }
.fail { --tone: var(--fail); --tone-ground: var(--fail-ground) }
.undecided { --tone: var(--undecided); --tone-ground: var(--undecided-ground) }
.none { --tone: var(--none); --tone-ground: var(--none-ground) }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); gap: .75rem; margin: 1rem 0;
  max-width: none; padding: 0; list-style: none }
.facts li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem }
.facts .name, .facts .aside { display: block; color: var(--soft); font-size: .85rem; line-height: 1.35 }
.facts .change { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums;
  white-space: nowrap; margin: .15rem 0 }
.facts .change b { font-weight: 650 }
.facts .change small { color: var(--soft); font-size: 1rem }
nav { font-size: .9rem; margin: 1rem 0 0; display: flex; flex-wrap: wrap; gap: .35rem 1rem }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: .2em }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1rem; margin: 1rem 0; align-items: start }
figure { margin: 0; max-width: 36.5rem; background: var(--plot-ground); border: 1px solid var(--line);
  border-radius: .5rem; padding: .75rem .5rem .5rem }
figcaption { font-size: .9rem; font-weight: 600; padding: 0 .4rem .4rem }
figure svg { display: block; width: 100%; height: auto }
figure svg text { font-family: inherit !important }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  margin: .75rem 0 }
.scroll:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--none); outline-offset: 2px }
table { border-collapse: collapse; width: 100%; font-size: .875rem; line-height: 1.4; overflow-wrap: normal }
caption { text-align: left; color: var(--soft); padding: .6rem .6rem .3rem; overflow-wrap: anywhere }
caption span { position: sticky; left: .6rem; display: inline-block; max-width: calc(100vw - 4rem) }
th, td { padding: .4rem .5rem; border-top: 1px solid var(--line); text-align: left; vertical-align: top;
  unicode-bidi: isolate }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom;
  border-top: 0; border-bottom: 1px solid var(--line) }
tbody th { font-weight: 600 }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
thead .number { white-space: normal; min-width: 4.5rem }
.middling { min-width: 9rem; overflow-wrap: anywhere }
.long { min-width: 24rem; overflow-wrap: anywhere }
tr.pass .result, tr.fail .result, tr.undecided .result { color: var(--tone); font-weight: 650 }
tr.fail { background: var(--tone-ground) }
details { margin: .75rem 0 }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; padding: .25rem 0 }
ul { max-width: 46rem; padding-left: 1.25rem }
@media (max-width: 30rem) {
  main { padding: 1rem .75rem 2rem }
  .verdict { padding: .75rem 1rem }
  .verdict p:first-child { font-size: 1.15rem }
  .facts { grid-template-columns: repeat(2, 1fr); gap: .5rem }
  .facts li { padding: .6rem .7rem }
  .facts .change { font-size: 1.1rem }
  figure { padding: .6rem .1rem .3rem }
  th, td { padding: .4rem }
  thead .number { min-width: 3.25rem } }
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --ground: #fff; --card: #fff; --line: #bbb;
    --pass: #0b7a4b; --fail: #b3261e; --none: #4a5568;
    --undecided: #8a5a00; --undecided-ground: #fff; --pass-ground: #fff; --fail-ground: #fff; --none-ground: #fff;
    --plot-blue: #0072b2; --plot-orange: #d55e00; --plot-green: #009e73; --plot-pink: #cc79a7; --plot-gold: #b8860b;
    --plot-sky: #3b9dd6; --plot-coal: #4d4d4d; --plot-control: #767676; --plot-ink: #333; --plot-faint: #d9d9d9;
    --plot-grid: #ececec; --plot-ground: #fff; --plot-limit: #b3261e }
  @page { margin: 15mm }
  body { font-size: 10pt }
  main { max-width: none; padding: 0 }
  nav { display: none }
  .scroll { overflow: visible; border: 0; break-inside: avoid }
  section > p { break-after: avoid }
  table { font-size: 7.5pt }
  th, td, caption { padding: .15rem .3rem }
  thead .number { min-width: 0 }
  .middling { min-width: 5.5rem; overflow-wrap: break-word }
  .long { min-width: 8rem; overflow-wrap: break-word }
  .figures { grid-template-columns: 1fr 1fr; gap: .5rem }
  figure svg { max-height: 200mm }
  h2, caption, summary { break-after: avoid }
  figure, tr, p, .facts li, .verdict { break-inside: avoid }
  details::details-content { content-visibility: visible; display: block; block-size: auto } }
""".strip()
