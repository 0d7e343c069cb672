#include "program/plan/certificate_json.h"

namespace heddle {

Json CertificateToJson(const std::optional<SearchCertificate>& certificate) {
  if (!certificate) return {};
  return {{"search", certificate->search},
          {"cost_seconds", certificate->cost_seconds},
          {"lower_bound_seconds", certificate->bound_seconds},
          {"certified_gap", certificate->gap()},
          {"expanded_states", certificate->expanded}};
}

}  // namespace heddle
