// `sk status` for programs, and its command line.
#include "tests/multi/open_metrics.h"
#include "tests/multi/sk_status_job.h"

namespace sk::testing_support {
namespace {

using testing::HasSubstr;

TEST_F(SkStatus, MetricsAreOpenMetrics) {
  Job job(
      ranks("2", {"barrier 3", "allreduce 1000", "allreduce 500", "say there", "1:stop", "pause"}));
  job.read_output(2);
  const Outcome outcome = run("--metrics");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  OpenMetrics parsed;
  ASSERT_EQ(parsed.parse(outcome.out), "");
  EXPECT_EQ(parsed.families.at("sk_calls").type, "counter");
  EXPECT_EQ(parsed.families.at("sk_call_bytes").unit, "bytes");
  EXPECT_EQ(parsed.families.at("sk_call_seconds").unit, "seconds");
  const auto value = [&](const std::string& name, const std::string& rank, const std::string& op) {
    double sum = -1;
    for (const auto& sample : parsed.samples) {
      if (sample.name != name || sample.labels.at("rank") != rank) continue;
      if (sample.labels.contains("operation") && sample.labels.at("operation") != op) continue;
      sum = std::max(sum, 0.0) + sample.value;
    }
    return sum;
  };
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(value("sk_calls_total", rank, "barrier"), 3);
    EXPECT_EQ(value("sk_calls_total", rank, "allreduce"), 2);
    EXPECT_EQ(value("sk_call_bytes_total", rank, "allreduce"), 6000);
    EXPECT_EQ(value("sk_call_failures_total", rank, "allreduce"), 0);
    EXPECT_GE(value("sk_call_seconds_total", rank, "barrier"), 0);
    EXPECT_EQ(value("sk_rank_state", rank, ""), 1);
  }
}

// The parser of these tests can say no.
TEST(OpenMetricsOfTheTests, RefusesWhatIsNone) {
  for (const char* bad :
       {"", "# EOF", "a 1\n# EOF\n", "# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a counter\na_total{x=\"1} 1\n# EOF\n", "# TYPE a counter\na_total 1\n",
        "# TYPE a counter\n# TYPE a counter\n# EOF\n", "# TYPE a gauge\n\na 1\n# EOF\n",
        "# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n", "# TYPE a gauge\na x\n# EOF\n",
        "# TYPE a gauge\na 1\na 2\n# EOF\n", "# TYPE a counter\na_total -1\n# EOF\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na{x=\"1\"} 1\n# EOF\n"}) {
    OpenMetrics parsed;
    EXPECT_NE(parsed.parse(bad), "") << bad;
  }
}

TEST_F(SkStatus, AWrongCommandLineIsASentence) {
  const struct {
    const char* options;
    const char* sentence;
  } table[] = {{"--nothing", "\"--nothing\" is no option"},
               {"--job", "--job needs a value"},
               {"--job ''", "--job is empty: it must be how a job's name begins"},
               {"--calls 257", "--calls is \"257\": it must be a number from 0 to 256"},
               {"--calls -1", "--calls is \"-1\": it must be a number from 0 to 256"},
               {"--all", "--all goes with --forget alone"},
               {"--metrics=text", "\"--metrics=text\": the form must be openmetrics or prometheus"},
               {"--json --metrics", "--json and --metrics do not go together"},
               {"a", "\"a\" is no option"}};
  for (const auto& row : table) {
    const Outcome outcome = run(row.options);
    EXPECT_EQ(outcome.status, 2) << row.options;
    EXPECT_THAT(outcome.err, HasSubstr(row.sentence));
    EXPECT_EQ(outcome.out, "");
  }
  setenv("SK_RECORD_KEEP_S", "long", 1);
  EXPECT_EQ(run("").status, 1);
  EXPECT_THAT(run("").err, HasSubstr("SK_RECORD_KEEP_S is \"long\": it must be a number"));
  unsetenv("SK_RECORD_KEEP_S");
  EXPECT_EQ(run("--help").status, 0);
}

// What is said of a format 0.0.4: each sample follows the type of its own name.
TEST_F(SkStatus, MetricsForPrometheusHaveNothingOfOpenMetrics) {
  Job job(ranks("2", {"barrier 3", "say there", "1:stop", "pause"}));
  job.read_output(2);
  const Outcome outcome = run("--metrics=prometheus");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("# UNIT")));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("# EOF")));
  std::map<std::string, std::string> types;
  std::string current;
  size_t samples = 0;
  for (const std::string& line : lines_of(outcome.out)) {
    std::istringstream words(line);
    std::string mark, what, name, type;
    if (line.starts_with("# TYPE ")) {
      words >> mark >> what >> name >> type;
      EXPECT_TRUE(type == "counter" || type == "gauge") << line;
      EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
      EXPECT_TRUE(types.emplace(name, type).second) << line;
      current = name;
    } else if (!line.starts_with("# HELP ")) {
      EXPECT_EQ(line.substr(0, line.find('{')), current) << line;
      ++samples;
    }
  }
  EXPECT_EQ(types.size(), 6u);
  EXPECT_GT(samples, 20u);
  EXPECT_EQ(run("--metrics=openmetrics").out.substr(0, 20), run("--metrics").out.substr(0, 20));
}

}  // namespace
}  // namespace sk::testing_support
