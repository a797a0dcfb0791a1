// This process's connections of TCP, by which ranks tell through which addresses they are joined.
#ifndef SK_TOOLS_SK_DOCTOR_CONNECTIONS_H_
#define SK_TOOLS_SK_DOCTOR_CONNECTIONS_H_

#include <string>
#include <utility>
#include <vector>

namespace sk::doctor {

// This end and the other, each with its port: "10.0.0.1:4711".
using Connection = std::pair<std::string, std::string>;
using Connections = std::vector<Connection>;

Connections open_connections();

// Those that were not there `before`.
Connections opened_since(const Connections& before);

// The addresses of a connection that both sides have, this side's first, without ports. Empty: they
// have none, or what is between them changes addresses.
std::pair<std::string, std::string> common(const Connections& mine, const Connections& theirs);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_CONNECTIONS_H_
