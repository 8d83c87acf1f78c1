"""What flows through salcli: records of arrays, validated once, read-only ever after."""
