// ShapedHosts: network namespaces of this machine that play the hosts of a cluster, with links
// shaped both ways (tests/support/namespaces.sh). For root.
//
//   const ShapedHosts hosts("hdb", 4);
//   if (!hosts.made()) …                       // not permitted here
//   hosts.Shape(2, 12.5e6);                    // bytes a second that programs see
//   OutputOf(hosts.OnEach("heddle run plan.json --json"));
#pragma once

#include <string>

namespace heddle {

class ShapedHosts {
 public:
  ShapedHosts(std::string tag, int hosts);
  ~ShapedHosts();
  ShapedHosts(const ShapedHosts&) = delete;
  ShapedHosts& operator=(const ShapedHosts&) = delete;

  bool made() const { return made_; }
  int hosts() const { return hosts_; }

  // Ethernet's and TCP's headers come on top.
  void Shape(int host, double bytes_per_second) const;

  // A shell line that runs the command on the first `ranks` hosts, as ranks of a launcher that meet
  // at `port`; it prints what the first printed. What that one says of errors goes to the file.
  std::string OnEach(const std::string& command, int ranks, int port,
                     const std::string& errors = "/dev/null") const;

 private:
  bool Script(const std::string& words) const;

  std::string tag_;
  int hosts_;
  bool made_;
};

}  // namespace heddle
