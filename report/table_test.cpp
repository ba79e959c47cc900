#include "report/table.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

Table example() {
  return {{{"run"}, {"loss", Align::right}}, {{"a|b", "2.5"}, {"naïve", "10.25"}, {"say \"x\", y", ""}}};
}

TEST(Table, TextAlignsByCodePointsAndLeavesNoTrailingSpaces) {
  EXPECT_EQ(table_text(example()),
            "run          loss\n"
            "----------  -----\n"
            "a|b           2.5\n"
            "naïve       10.25\n"
            "say \"x\", y\n");
}

TEST(Table, MarkdownEscapesBarsAndMarksAlignment) {
  EXPECT_EQ(table_markdown(example()),
            "| run        |  loss |\n"
            "| ---------- | ----: |\n"
            "| a\\|b       |   2.5 |\n"
            "| naïve      | 10.25 |\n"
            "| say \"x\", y |       |\n");
}

TEST(Table, CsvQuotesOnlyWhatNeedsItAndDoublesQuotes) {
  EXPECT_EQ(table_csv(example()), "run,loss\r\na|b,2.5\r\nnaïve,10.25\r\n\"say \"\"x\"\", y\",\r\n");
}

TEST(Table, HtmlEscapesCells) {
  const std::string html = table_html({{{"<t>"}}, {{"a & 'b'"}}});
  EXPECT_NE(html.find("<th>&lt;t&gt;</th>"), std::string::npos) << html;
  EXPECT_NE(html.find("<td>a &amp; &#39;b&#39;</td>"), std::string::npos) << html;
}

TEST(Table, RefusesARowOfAnotherLength) {
  const Table table = {{{"a"}, {"b"}}, {{"1"}}};
  for (const auto render : {table_text, table_markdown, table_csv, table_html}) EXPECT_ANY_THROW(render(table));
}

}  // namespace
}  // namespace tern
