/* Order of search results: guides first, generated pages last. Sphinx includes this file in searchtools.js. */
var Scorer = {
  score: ([page, title, anchor, , score, , kind]) => {
    const weights = [
      [/^tutorials\//, 3], [/^how_to\//, 3], [/^explanation\/|^architecture$/, 2],
      [/^environments\/(ids_|data_files|tasks)/, 0.8], [/^environments\//, 1.5],
      [/^reference\/file_schemas$/, 0.1], [/^reference\/gin_parameters$/, 0.5],
      [/^(report|results|examples|notices|changelog|docker|contributing)/, 0.5],
    ];
    const [, weight] = weights.find(([pattern]) => pattern.test(page)) || [null, 1];
    // a heading inside a page counts less than a page that has the word in its title
    return score * weight * (kind === "title" && anchor ? 0.6 : 1);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
// Browsers do not let a page that was opened from a file read other files, so summaries cannot be shown there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
