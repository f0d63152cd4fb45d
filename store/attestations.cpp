// SPDX-License-Identifier: Apache-2.0
#include "store/attestations.hpp"

#include <utility>

#include "store/connection.hpp"
#include "store/measurements.hpp"

namespace cubinary::store {

core::Result<Attestations> attestations(const Reader& reader, std::string_view kernel,
                                        std::string_view target) {
  TRY_ASSIGN(
      Statement row,
      reader.connection().query(
          "SELECT m.candidate_id, g.json, p.json, d.name, m.driver, m.status, "
          "coalesce(m.max_error, 2) <= 1 FROM ("
          "SELECT m.*, s.driver, row_number() OVER (PARTITION BY m.candidate_id, m.config_id, "
          "m.shape_id, m.device_class_id, s.driver ORDER BY m.id DESC) AS place "
          "FROM measurement m JOIN device_session s ON s.id = m.session_id "
          "JOIN candidate c ON c.id = m.candidate_id "
          "WHERE m.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.target = ?2 "
          "AND c.current = 1 AND c.role = 0 AND m.status IN (0, 1, 2)) m "
          "JOIN json_value g ON g.id = m.config_id JOIN json_value p ON p.id = m.shape_id "
          "JOIN device_class d ON d.id = m.device_class_id WHERE m.place = 1 ORDER BY m.id",
          kernel, target));
  Attestations found;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return found;
    }
    TRY_ASSIGN(core::Config config, core::config_from_json(row.text(1)));
    Attestation& attestation = found[{row.integer(0), std::move(config)}];
    const auto status = static_cast<MeasurementStatus>(row.integer(5));
    if (status == MeasurementStatus::ok && row.integer(6) != 0) {
      attestation.passed.insert(row.text(3) + " driver " + row.text(4));
    } else {
      TRY_ASSIGN(const core::Shape shape, core::shape_from_json(row.text(2)));
      attestation.failed =
          std::string(status == MeasurementStatus::fault ? "faulted" : "was wrong") + " at " +
          core::to_display(shape) + " on " + row.text(3) + ", driver " + row.text(4);
    }
  }
}

}  // namespace cubinary::store
