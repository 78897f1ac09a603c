-- The row of a dead letter in `groups`: its group, its time of death, and its row in `dead`. All scores are 0, so Redis
-- sorts by bytes: a group is a range that begins with its oldest dead letter, and so are groups with the same first six
-- digits.
--   group: twelve digits, lapsed, expired, or empty: the failure has no fingerprint
-- needs: pack_number
-- gives: group_row
local function group_row(group, died, member)
  return string.format('%-12s', group) .. pack_number(died, 6) .. member
end
